//! Mistakes in configuration files, and round trips of correct ones.

use crate::common::parts::each_combination;
use attentive::{
    Cell, Evict, Hops, Initialization, KTop, KTrunc, SabLstmConfig, ScoreGradient, Scorer, Sparsifier, Store,
    TruncPhase,
};
use burn::config::Config;

fn parse(json: &str) -> Result<SabLstmConfig, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn a_mistake_in_a_configuration_file_says_what_is_expected() {
    let number_or = |word: &str| format!("a whole number or \"{word}\"");
    let cases = [
        (r#""k_tpo": 3"#, vec!["k_tpo".to_string(), "k_top".into()]),
        (r#""k_top": "al""#, vec!["\"al\"".into(), number_or("all")]),
        (r#""k_top": -1"#, vec![number_or("all")]),
        (r#""k_top": 1.5"#, vec![number_or("all")]),
        (r#""k_top": null"#, vec![number_or("all")]),
        (r#""k_trunc": "non""#, vec!["\"non\"".into(), number_or("none")]),
        (r#""k_trunc": -5"#, vec![number_or("none")]),
        (r#""trunc_phase": "rand""#, vec!["\"rand\"".into(), number_or("random")]),
        (r#""trunc_phase": []"#, vec![number_or("random")]),
        (r#""k_att": -1"#, vec!["-1".into(), "usize".into()]),
        (r#""k_att": "2""#, vec!["usize".into()]),
        (r#""mental_updates": "yes""#, vec!["yes".into(), "a boolean".into()]),
        (r#""score_gradient": "ful""#, vec!["ful".into(), "weights".into(), "full".into()]),
        (r#""hops": "two""#, vec!["two".into(), "one".into(), "all".into()]),
        (r#""cell": "gur""#, vec!["no cell \"gur\"".into(), "lstm, gru".into()]),
        (r#""cell": 3"#, vec!["3".into(), "string".into()]),
        (r#""scorer": "dott""#, vec!["no scorer \"dott\"".into(), "additive, dot, cosine".into()]),
        (r#""sparsifier": "Softmax""#, vec!["no sparsifier \"Softmax\"".into(), "prominence, softmax".into()]),
        (r#""store": """#, vec!["no store \"\"".into(), "every, novelty".into()]),
        (r#""evict": "newest""#, vec!["no eviction rule \"newest\"".into(), "oldest, least-attended".into()]),
        (r#""capacity": -1"#, vec!["a number or \"none\"".into()]),
        (r#""capacity": "all""#, vec!["\"all\"".into(), "a number or \"none\"".into()]),
        (r#""novelty": "much""#, vec!["much".into(), "f64".into()]),
        (r#""noveltty": 0.1"#, vec!["noveltty".into(), "`novelty`".into()]),
        (r#""initialization": {"gain": 1.0}"#, vec!["gain".into(), "attention_gain".into()]),
    ];
    for (field, words) in cases {
        let error = parse(&format!(r#"{{"input": 3, "hidden": 4, {field}}}"#)).expect_err(field);
        for word in words {
            assert!(error.contains(&word), "{field}: `{word}` is not in: {error}");
        }
    }
    assert!(parse(r#"{"input": 3}"#).expect_err("a size is missing").contains("hidden"));
}

#[test]
fn files_of_earlier_versions_are_read_and_the_size_of_the_input_can_be_left_to_the_data() {
    let older = r#"{"input": 3, "hidden": 4, "capacity": null, "initialization": {"bound": null, "input_gain": 2.0}}"#;
    let start = Initialization { input_gain: 2.0, ..Initialization::default() };
    assert_eq!(parse(older), Ok(SabLstmConfig::new(3, 4).with_initialization(start)));

    let unsized_layer = parse(r#"{"hidden": 4}"#).expect("no input");
    assert!(!serde_json::to_string(&unsized_layer).expect("plain data").contains("input\""));
    assert!(unsized_layer.validate().expect_err("no size").to_string().contains("`input` is 0"));
}

#[test]
fn a_configuration_file_keeps_every_option() {
    let start = SabLstmConfig::new(3, 4);
    assert_eq!(parse(r#"{"input": 3, "hidden": 4}"#), Ok(start.clone()), "the defaults are those of `new`");
    let mut configs = vec![start.clone(), start.clone().with_k_att(7).with_mental_updates(false)];
    configs.extend([KTop::Count(0), KTop::Count(9), KTop::All].map(|k_top| start.clone().with_k_top(k_top)));
    configs.extend([KTrunc::Every(3), KTrunc::None].map(|k_trunc| start.clone().with_k_trunc(k_trunc)));
    configs.extend([TruncPhase::Fixed(2), TruncPhase::Random].map(|phase| start.clone().with_trunc_phase(phase)));
    configs.extend([ScoreGradient::Weights, ScoreGradient::Full].map(|which| start.clone().with_score_gradient(which)));
    configs.extend([Hops::One, Hops::All].map(|hops| start.clone().with_hops(hops)));
    configs.extend(Cell::ALL.iter().map(|cell| start.clone().with_cell(*cell)));
    configs.extend(Scorer::ALL.iter().map(|scorer| start.clone().with_scorer(*scorer)));
    configs.extend(Sparsifier::ALL.iter().map(|sparsifier| start.clone().with_sparsifier(*sparsifier)));
    configs.extend(Store::ALL.iter().map(|store| start.clone().with_store(*store)));
    configs.extend(Evict::ALL.iter().map(|evict| start.clone().with_evict(*evict)));
    configs.extend([0.0, 0.25, 3.0].map(|novelty| start.clone().with_novelty(novelty)));
    configs.extend([None, Some(1), Some(9)].map(|capacity| start.clone().with_capacity(capacity)));
    configs.extend(each_combination(&start).into_iter().map(|(_, config)| config));
    let initialization =
        Initialization { bound: Some(0.3), input_gain: 1.5, attention_gain: 2.5, score_gain: 0.1, forget_bias: -1.0 };
    configs.push(start.with_initialization(initialization));
    for config in configs {
        let json = serde_json::to_string(&config).expect("plain data");
        assert_eq!(parse(&json).as_ref(), Ok(&config), "{json}");
        assert_eq!(SabLstmConfig::load_binary(json.as_bytes()).expect("Burn reads it too"), config);
    }
    let words = parse(r#"{"input": 3, "hidden": 4, "k_top": "all", "k_trunc": "none", "trunc_phase": "random"}"#);
    let right = SabLstmConfig::new(3, 4).with_k_top(KTop::All).with_k_trunc(None).with_trunc_phase(TruncPhase::Random);
    assert_eq!(words, Ok(right));
}

#[test]
fn a_configuration_file_of_an_earlier_version_has_the_default_parts() {
    let old = r#"{"input": 3, "hidden": 4, "k_top": 2, "k_att": 3, "k_trunc": 4, "trunc_phase": 1,
        "mental_updates": false, "score_gradient": "full", "hops": "one", "initialization": {"forget_bias": 1.0}}"#;
    let config = parse(old).expect("an earlier version wrote it");
    assert_eq!((config.cell, config.scorer, config.sparsifier), (Cell::Lstm, Scorer::Additive, Sparsifier::Prominence));
    assert_eq!((config.store, config.capacity, config.evict), (Store::Every, None, Evict::Oldest));
    assert_eq!((config.k_top, config.k_att, config.hops), (KTop::Count(2), 3, Hops::One));
    assert!(config.validate().is_ok());
}

#[test]
fn the_names_in_a_configuration_file_are_those_of_the_documentation() {
    let config = parse(
        r#"{"input": 3, "hidden": 4, "cell": "gru", "scorer": "cosine", "sparsifier": "softmax", "store": "novelty",
        "novelty": 0.25, "capacity": 7, "evict": "least-attended"}"#,
    );
    let right = SabLstmConfig::new(3, 4).with_cell(Cell::Gru).with_scorer(Scorer::Cosine).with_novelty(0.25);
    let right = right.with_sparsifier(Sparsifier::Softmax).with_capacity(7).with_evict(Evict::LeastAttended);
    assert_eq!(config, Ok(right));
}
