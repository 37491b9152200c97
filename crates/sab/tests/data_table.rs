//! Tables are grouped, sorted, checked, split and standardized.

mod data_support;

use data_support::*;
use sab::data::{
    AnswerKind, AnswerOn, Answers, Result, Standardization, Table, TableLayout, TableSplit, load_table, parse_table,
};
use std::path::Path;

fn parse(csv: &str) -> Result<Table> {
    parse_with(csv, &TableLayout::default())
}

fn parse_with(csv: &str, layout: &TableLayout) -> Result<Table> {
    parse_table(Path::new("t.csv"), csv.as_bytes(), layout)
}

fn each() -> TableLayout {
    TableLayout { on: AnswerOn::Each, ..TableLayout::default() }
}

#[test]
fn rows_in_any_order_are_grouped_by_sequence_and_sorted_by_step() {
    let csv = "\u{feff}id, t, x, y, label\nb,10,5,6,no\na,1,1,2,\nb,9,3,4,yes\na,2.5,-1e2,.5,yes\n";
    let table = parse(csv).unwrap();
    assert_eq!(table.feature_names, ["x", "y"]);
    assert_eq!((table.kind, table.on, table.label_name.as_str()), (AnswerKind::Class, AnswerOn::Last, "label"));
    assert_eq!(table.class_names, ["no", "yes"]);
    let [b, a] = &table.sequences[..] else { panic!("two sequences") };
    assert_eq!((b.id.as_str(), b.steps, &b.features[..]), ("b", 2, &[3.0, 4.0, 5.0, 6.0][..]));
    assert_eq!(b.answers, Answers::Classes(vec![0]));
    assert_eq!((a.id.as_str(), &a.features[..]), ("a", &[1.0, 2.0, -100.0, 0.5][..]));
    assert_eq!(a.answers, Answers::Classes(vec![1]));
}

#[test]
fn answers_on_each_step_are_all_needed() {
    let table = parse_with("id,t,x,label\na,2,1,10\na,1,1,9\n", &each()).unwrap();
    assert_eq!(table.class_names, ["9", "10"]);
    assert_eq!(table.sequences[0].answers, Answers::Classes(vec![0, 1]));
    says(parse_with("id,t,x,label\na,2,1,10\na,1,1,\n", &each()), &["line 3, column `label`", "empty"]);
}

#[test]
fn the_kind_of_answer_is_guessed_unless_it_is_given() {
    let csv = |labels: &[String]| {
        let rows = labels.iter().enumerate().map(|(i, label)| format!("s{i},1,0,{label}\n"));
        format!("id,t,x,label\n{}", rows.collect::<String>())
    };
    let whole = |n: i32| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
    assert_eq!(parse(&csv(&whole(20))).unwrap().kind, AnswerKind::Class);
    assert_eq!(parse(&csv(&whole(21))).unwrap().kind, AnswerKind::Value);
    assert_eq!(parse(&csv(&["1".into(), "2.5".into()])).unwrap().kind, AnswerKind::Value);
    assert_eq!(parse(&csv(&["1".into(), "nan".into()])).unwrap().kind, AnswerKind::Class);
    let value = TableLayout { kind: Some(AnswerKind::Value), ..TableLayout::default() };
    let table = parse_with(&csv(&["1".into(), "-2".into()]), &value).unwrap();
    assert_eq!(table.sequences[1].answers, Answers::Values(vec![-2.0]));
    assert!(table.class_names.is_empty());
    says(parse_with(&csv(&["1".into(), "two".into()]), &value), &["line 3, column `label`: `two` is not a number"]);
    says(parse_with(&csv(&["1".into(), "inf".into()]), &value), &["`inf` is not a finite number"]);
}

#[test]
fn columns_can_be_named_and_the_rest_is_guessed() {
    let csv = "answer,x,note,time,who,y\n1,2,n,3,a,4\n";
    let layout = TableLayout {
        sequence: Some("who".into()),
        step: Some("time".into()),
        label: Some("answer".into()),
        features: vec!["y".into(), "x".into()],
        ..TableLayout::default()
    };
    let table = parse_with(csv, &layout).unwrap();
    assert_eq!(table.feature_names, ["y", "x"]);
    assert_eq!(table.sequences[0].features, [4.0, 2.0]);
    let label_first = TableLayout { label: Some("c".into()), ..TableLayout::default() };
    let table = parse_with("c,id,t,x,y\nk,a,1,2,3\n", &label_first).unwrap();
    assert_eq!((table.sequences[0].id.as_str(), &table.feature_names[..]), ("a", &["x".into(), "y".into()][..]));
    let json: TableLayout = serde_json::from_str(r#"{"label":"c","kind":"class","on":"each"}"#).unwrap();
    assert_eq!(json, TableLayout { label: Some("c".into()), kind: Some(AnswerKind::Class), ..each() });
}

#[test]
fn wrong_columns_are_errors() {
    let layout = |f: &dyn Fn(&mut TableLayout)| {
        let mut layout = TableLayout::default();
        f(&mut layout);
        layout
    };
    let csv = "id,t,x,label\na,1,2,k\n";
    let missing = layout(&|l| l.label = Some("lable".into()));
    says(parse_with(csv, &missing), &["t.csv has no column `lable`; it has `id`, `t`, `x`, `label`"]);
    says(parse_with(csv, &layout(&|l| l.features = vec!["x".into(), "y".into()])), &["no column `y`"]);
    says(
        parse_with(csv, &layout(&|l| l.features = vec!["x".into(), "x".into()])),
        &["`x`, which cannot be used twice"],
    );
    let swapped = layout(&|l| l.step = Some("id".into()));
    says(parse_with(csv, &swapped), &["column `id`: `a` is not a number"]);
    let twice = layout(&|l| (l.step, l.label) = (Some("t".into()), Some("t".into())));
    says(parse_with(csv, &twice), &["t.csv has a column `t`, which cannot be used twice (`task.step`, `task.label`)"]);
    says(parse("id,t,x,x,label\na,1,2,3,k\n"), &["has two columns `x`"]);
    says(parse("id,t,label\na,1,k\n"), &["too few columns (3): none is left for the features"]);
    says(parse("id;t;x;label\na;1;2;k\n"), &["too few columns (1)", "separated by commas"]);
}

#[test]
fn bad_rows_are_named_by_line_and_column() {
    let head = "id,t,x,label\na,1,2,k\n";
    let cases = [
        ("b,1,oops,k\n", "t.csv, line 3, column `x`: `oops` is not a number"),
        ("b,1,,k\n", "line 3, column `x`: a number is missing"),
        ("b,1,NaN,k\n", "line 3, column `x`: `NaN` is not a finite number"),
        ("b,1,1e39,k\n", "line 3, column `x`: `1e39` is too large for a 32-bit number"),
        ("b,one,1,k\n", "line 3, column `t`: `one` is not a number"),
        (",1,1,k\n", "line 3, column `id`: the name of the sequence is empty"),
        ("b,1,1,\n", "line 3, column `label`: the label of the last step of a sequence is empty"),
        ("b,1,1\n", "line 3: the row has 3 columns, the header has 4"),
        ("\nb,1,1,k,k\n", "line 4: the row has 5 columns, the header has 4"),
        ("b,0,1,k\na,1.0,3,k\n", "line 4, column `t`: sequence `a` has step 1 already in line 2"),
        ("a,2,1,\n", "line 3, column `label`"),
    ];
    for (rows, text) in cases {
        says(parse(&format!("{head}{rows}")), &[text]);
    }
    says(parse_table(Path::new("t.csv"), b"id,t,x,label\na,1,1,\xff\n", &each()), &["line 2: the row is not UTF-8"]);
    says(parse(""), &["t.csv is empty"]);
    says(parse("\n\n"), &["t.csv is empty"]);
    says(parse("id,t,x,label\n"), &["has a header but no rows"]);
}

#[test]
fn a_missing_table_is_an_error_and_a_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    says(load_table(&path, &each()), &["t.csv does not exist"]);
    put(dir.path(), "t.csv", "id,t,x,label\na,1,\"2\",\"k, l\"\n");
    assert_eq!(load_table(&path, &each()).unwrap().class_names, ["k, l"]);
}

#[test]
fn a_split_deals_out_every_sequence_once_and_is_the_same_everywhere() {
    for count in 3..200 {
        let split = TableSplit::new(count, 7).unwrap();
        let mut all = [split.train.clone(), split.validation.clone(), split.test.clone()].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count));
        assert!(!split.train.is_empty() && !split.validation.is_empty() && !split.test.is_empty());
        assert!(count < 10 || split.train.len() * 10 >= count * 7);
        assert_eq!(split, TableSplit::new(count, 7).unwrap());
    }
    // Golden: a change here changes what old runs were judged by.
    let split = TableSplit::new(20, 1).unwrap();
    assert_eq!(split.test, GOLDEN_TEST);
    assert_eq!(split.validation, GOLDEN_VALIDATION);
    assert_ne!(split, TableSplit::new(20, 2).unwrap());
    says(TableSplit::new(2, 0), &["2 sequences cannot be split"]);
}

/// Computed by another program from the definition of ChaCha8.
const GOLDEN_TEST: [usize; 2] = [10, 7];
const GOLDEN_VALIDATION: [usize; 2] = [9, 6];

#[test]
fn standardization_uses_the_training_sequences_only() {
    let csv = "id,t,x,c,label\na,1,1,0.1,0.5\na,2,3,0.1,1.5\nb,1,1,0.1,2\nb,2,3,0.1,2.5\nz,1,1000,7,100\n";
    let table = parse(csv).unwrap();
    let features = Standardization::of_features(&table, &[0, 1]).unwrap();
    assert_eq!((features.mean(), features.deviation()), (&[2.0, 0.1][..], &[1.0, 1.0][..]));
    let values = Standardization::of_values(&table, &[0, 1]).unwrap();
    assert_eq!((values.mean(), values.deviation()), (&[2.0][..], &[0.5][..]));
    let mut rows = table.sequences[0].features.clone();
    features.apply(&mut rows);
    assert_eq!(rows, [-1.0, 0.0, 1.0, 0.0]);
    features.undo(&mut rows);
    assert_eq!(rows, table.sequences[0].features);
    let mut extreme = [f32::MAX, f32::MIN];
    Standardization::new(vec![0.0], vec![f32::MIN_POSITIVE]).unwrap().apply(&mut extreme);
    assert!(extreme.iter().all(|x| x.is_finite()));
    let json = serde_json::to_string(&features).unwrap();
    assert_eq!(serde_json::from_str::<Standardization>(&json).unwrap(), features);
}

#[test]
fn a_standardization_that_makes_no_sense_is_refused() {
    let table = parse("id,t,x,label\na,1,1,k\n").unwrap();
    says(Standardization::of_features(&table, &[]), &["no training sequences"]);
    says(Standardization::of_features(&table, &[1]), &["no sequence 1 of 1"]);
    says(Standardization::of_values(&table, &[0]), &["classes cannot be standardized"]);
    for bad in
        [r#"{"mean":[1],"deviation":[]}"#, r#"{"mean":[1],"deviation":[0]}"#, r#"{"mean":[1e99],"deviation":[1]}"#]
    {
        assert!(serde_json::from_str::<Standardization>(bad).is_err(), "{bad}");
    }
}
