//! The top-level modules of each crate form no cycle, and those of the laboratory keep to the order in
//! docs/extending.md.
//!
//! `cargo test --release -p attentive-sab --test module_graph -- --nocapture` prints the graphs.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which top-level modules each top-level module names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The line in docs/extending.md above the modules of the laboratory.
const MARKER: &str = "<!-- module order, checked by crates/sab/tests/module_graph.rs -->";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

fn tokens(text: &str) -> Vec<TokenTree> {
    text.parse::<TokenStream>().expect("Rust").into_iter().collect()
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(found)) if found == word)
}

/// The names right below the crate's root that code names, by `crate::` or by as many `super::` as it is deep: `depth`
/// is 1 in the file of a top-level module. Comments, strings and unit tests do not count.
fn names_below_root(tokens: &[TokenTree], depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut place, mut next_is_test) = (0, false);
    while place < tokens.len() {
        let path_starts = !matches!(place.checked_sub(1).map(|before| &tokens[before]),
            Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
        let supers = (0..).take_while(|n| is_word(tokens.get(place + 3 * n), "super")).count();
        let behind = match &tokens[place] {
            _ if is_word(tokens.get(place), "crate") && path_starts => Some(place + 3),
            _ if supers == depth && path_starts => Some(place + 3 * supers),
            _ => None,
        };
        if let Some(behind) = behind {
            found.extend(first_words(tokens.get(behind)));
        }
        match &tokens[place] {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_attribute = group.delimiter() == Delimiter::Bracket;
                if is_attribute && is_word(inner.first(), "cfg") && group.to_string().contains("(test)") {
                    next_is_test = true;
                } else if group.delimiter() == Delimiter::Brace {
                    let is_module = place >= 2 && is_word(tokens.get(place - 2), "mod");
                    if !(is_module && next_is_test) {
                        found.extend(names_below_root(&inner, depth + usize::from(is_module)));
                    }
                    next_is_test = false;
                } else {
                    found.extend(names_below_root(&inner, depth));
                }
            }
            TokenTree::Punct(end) if end.as_char() == ';' => next_is_test = false,
            _ => {}
        }
        place += 1;
    }
    found
}

/// A name, or the first name of each path in braces.
fn first_words(token: Option<&TokenTree>) -> Vec<String> {
    match token {
        Some(TokenTree::Ident(name)) => vec![name.to_string()],
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let paths = inner.split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ','));
            paths.flat_map(|path| first_words(path.first())).collect()
        }
        _ => Vec::new(),
    }
}

/// In which top-level modules the names live that the crate's root hands out.
fn handed_out(root: &[TokenTree]) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for (place, token) in root.iter().enumerate() {
        let (true, Some(TokenTree::Ident(module))) = (is_word(Some(token), "use"), root.get(place + 1)) else {
            continue;
        };
        owners.extend(first_words(root.get(place + 4)).into_iter().map(|name| (name, module.to_string())));
    }
    owners
}

fn graph(name: &str) -> Graph {
    let source = repository().join("crates").join(name).join("src");
    let read = |path: &Path| tokens(&std::fs::read_to_string(path).expect("a source file"));
    let owners = handed_out(&read(&source.join("lib.rs")));
    let mut named = Graph::new();
    for path in files(&source) {
        let inside = path.strip_prefix(&source).expect("a file below src").with_extension("");
        let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
        if ["lib", "main"].contains(&parts[0]) || parts.last() == Some(&"tests") {
            continue;
        }
        let depth = parts.iter().filter(|part| **part != "mod").count();
        named.entry(parts[0].to_string()).or_default().extend(names_below_root(&read(&path), depth));
    }
    let module_of =
        |word: &String| named.get_key_value(word).map(|(name, _)| name).or_else(|| owners.get(word)).cloned();
    let edges = |(module, words): (&String, &BTreeSet<String>)| {
        (module.clone(), words.iter().filter_map(module_of).filter(|target| target != module).collect())
    };
    named.iter().map(edges).collect()
}

/// A way from a module back to itself, if there is one.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn walk<'a>(graph: &'a Graph, path: &mut Vec<&'a str>, done: &mut BTreeSet<&'a str>) -> Option<Vec<String>> {
        let last = *path.last()?;
        for next in graph.get(last).into_iter().flatten() {
            if let Some(place) = path.iter().position(|name| name == next) {
                return Some(path[place..].iter().map(ToString::to_string).chain([next.clone()]).collect());
            }
            if !done.contains(next.as_str()) {
                path.push(next);
                if let Some(found) = walk(graph, path, done) {
                    return Some(found);
                }
                path.pop();
            }
        }
        done.insert(last);
        None
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|name| walk(graph, &mut vec![name], &mut done))
}

/// The lines of a document's block of modules: names up to two spaces, then an explanation.
fn order(document: &str) -> Vec<Vec<String>> {
    let block =
        document.split(MARKER).nth(1).expect("the marker").split("```").nth(1).expect("a block behind the marker");
    let names = |line: &str| -> Vec<String> {
        let names = line.trim().split("  ").next().unwrap_or_default();
        names.split(' ').map(str::to_string).collect()
    };
    block.lines().skip(1).map(names).filter(|names| !names[0].is_empty()).collect()
}

/// The conflicts between a graph and an order in which each module may name only those of earlier lines.
fn against(graph: &Graph, order: &[Vec<String>]) -> Vec<String> {
    let line_of = |name: &String| order.iter().position(|names| names.contains(name));
    let mut wrong = Vec::new();
    for name in order.iter().flatten().filter(|name| !graph.contains_key(*name)) {
        wrong.push(format!("`{name}` is listed and is no module"));
    }
    for (module, named) in graph {
        let Some(own) = line_of(module) else {
            wrong.push(format!("`{module}` is not listed"));
            continue;
        };
        let later = named.iter().filter(|target| line_of(target).is_some_and(|line| line >= own));
        wrong.extend(later.map(|target| format!("`{module}` names `{target}`, which is not listed before it")));
    }
    wrong
}

#[test]
fn no_crate_has_a_cycle_between_its_top_level_modules() {
    for name in ["attentive-engine", "attentive", "sab"] {
        let graph = graph(name);
        let edges: usize = graph.values().map(BTreeSet::len).sum();
        assert!(graph.len() > 5 && edges > 5, "{name} has {} modules: the sources were not read", graph.len());
        eprintln!("{name}");
        for (module, named) in &graph {
            eprintln!("  {module} -> {}", named.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        assert_eq!(cycle(&graph), None, "modules of {name} name each other in a circle");
    }
}

#[test]
fn every_module_of_the_laboratory_keeps_to_the_order_in_the_guide() {
    let guide = std::fs::read_to_string(repository().join("docs/extending.md")).expect("the guide");
    let wrong = against(&graph("sab"), &order(&guide));
    assert!(wrong.is_empty(), "docs/extending.md: {}", wrong.join("; "));
}

#[test]
fn a_cycle_is_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in pairs {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    };
    assert_eq!(cycle(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(&edges(&[("a", "b"), ("b", "c"), ("c", "b")])).expect("a cycle");
    assert_eq!(found, ["b", "c", "b"]);

    let document = format!("# Title\n{MARKER}\n```text\n  c          words\nb a   more\n```\n");
    let wrong = against(&edges(&[("a", "c"), ("c", "b"), ("d", "a")]), &order(&document));
    let [no_module, backward, unlisted] = &wrong[..] else { panic!("{wrong:?}") };
    assert!(no_module.contains("`b` is listed and is no module"), "{no_module}");
    assert!(backward.contains("`c` names `b`"), "{backward}");
    assert!(unlisted.contains("`d` is not listed"), "{unlisted}");
}

#[test]
fn names_are_found_wherever_code_has_them() {
    let found = |text: &str, depth| names_below_root(&tokens(text), depth).into_iter().collect::<Vec<_>>();
    let grouped = "use crate::{error::{A, B}, tasks::Task, rng}; fn f() { crate::data::x(); other_crate::no() }";
    assert_eq!(found(grouped, 1), ["data", "error", "rng", "tasks"]);
    assert_eq!(found("use super::{a::X, b}; mod inner { use super::no; use super::super::c; }", 1), ["a", "b", "c"]);
    assert_eq!(found("use super::no; use super::super::a;", 2), ["a"]);
    assert_eq!(
        found("// crate::no\nconst X: &str = \"crate::no\"; macro_rules! m { () => { $crate::a::b() } }", 1),
        ["a"]
    );
    assert_eq!(found("#[cfg(test)]\nmod tests { use crate::no; } use crate::yes;", 1), ["yes"]);
    assert_eq!(found("#[cfg(test)]\nmod tests; mod m { use crate::yes; }", 1), ["yes"]);
}
