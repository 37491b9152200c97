//! The top-level modules of each crate form no cycle, and none of the laboratory's points against the flow of data.
//!
//! `cargo test --release -p attentive-sab --test module_graph -- --nocapture` prints the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which modules each module names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Modules in the order of the flow: task, model, run directory, trainer, whole runs, reports, commands. The trainer writes
/// into the run directory, so it comes behind it here. A module may name those before it and none behind it.
const FLOW: [&str; 8] = ["tasks", "models", "run_dir", "train", "display", "runs", "report", "commands"];

fn crate_source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

/// All Rust files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
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

/// The text of a file without comments and without its unit tests, on one line.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file");
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

/// The first names behind `prefix::`: one, or those of a group in braces.
fn names_behind(text: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut found = Vec::new();
    for (place, _) in text.match_indices(prefix) {
        // `$crate::` of a macro is the same crate; `my_crate::` is another name.
        if text[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[place + prefix.len()..];
        if !rest.starts_with('{') {
            found.push(word(rest));
            continue;
        }
        let (mut depth, mut at_start) = (0, false);
        for (place, letter) in rest.char_indices() {
            match letter {
                '{' => (depth, at_start) = (depth + 1, depth == 0),
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                ',' => at_start = depth == 1,
                _ if at_start && !letter.is_whitespace() => {
                    found.push(word(&rest[place..]));
                    at_start = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// The modules that a crate's root declares, and in which of them the names live that it hands out.
fn root(source: &Path) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let text = code(&source.join("lib.rs"));
    let mut modules = BTreeSet::new();
    for part in text.split("mod ").skip(1) {
        let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        modules.insert(name);
    }
    let mut owners = BTreeMap::new();
    for statement in text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let Some((module, names)) = statement.split_once("::") else { continue };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            owners.insert(name.to_string(), module.trim().to_string());
        }
    }
    (modules, owners)
}

fn graph(name: &str) -> Graph {
    let source = crate_source(name);
    let (modules, owners) = root(&source);
    let mut graph = Graph::new();
    for path in files(&source) {
        let inside = path.strip_prefix(&source).expect("a file below src");
        let top = inside.iter().next().and_then(|name| name.to_str()).unwrap_or_default().trim_end_matches(".rs");
        if ["lib", "main", "tests"].contains(&top) || path.ends_with("tests.rs") {
            continue;
        }
        let edges = graph.entry(top.to_string()).or_default();
        for named in names_behind(&code(&path), "crate::") {
            let target = if modules.contains(&named) { named } else { owners.get(&named).cloned().unwrap_or_default() };
            if !target.is_empty() && target != top {
                edges.insert(target);
            }
        }
    }
    graph
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

#[test]
fn no_crate_has_a_cycle_between_its_top_level_modules() {
    for name in ["attentive-engine", "attentive", "sab"] {
        let graph = graph(name);
        assert!(graph.len() > 5, "{name} has {} modules: the sources were not read", graph.len());
        eprintln!("{name}");
        for (module, named) in &graph {
            eprintln!("  {module} -> {}", named.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        assert_eq!(cycle(&graph), None, "modules of {name} name each other in a circle");
    }
}

#[test]
fn no_module_of_the_laboratory_points_against_the_flow() {
    let graph = graph("sab");
    for (place, module) in FLOW.iter().enumerate() {
        for behind in &FLOW[place + 1..] {
            assert!(!graph[*module].contains(*behind), "`{module}` names `{behind}`, which comes behind it");
        }
    }
}

#[test]
fn a_cycle_is_found_and_so_are_grouped_names() {
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
    let named =
        names_behind("use crate::{error::{A, B}, tasks::Task, rng}; crate::data::x() other_crate::no", "crate::");
    assert_eq!(named, ["error", "tasks", "rng", "data"]);
}
