//! Suggestions for names that do not exist.

/// The candidate that looks most like `word`, if one looks like it at all.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// At most three candidates that look most like `word`, by their whole name or its last part, best first.
pub fn nearest_few<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let likeness = |candidate: &str| {
        let last = candidate.rsplit('/').next().unwrap_or(candidate);
        strsim::jaro_winkler(word, candidate).max(strsim::jaro_winkler(word, last))
    };
    let mut all: Vec<&str> = candidates.into_iter().collect();
    all.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
    all.dedup();
    all.truncate(3);
    all
}

/// The end of an error about an unknown name: the nearest name, or all of them. `what` says what they are, in the
/// plural.
pub fn did_you_mean(word: &str, names: &[&str], what: &str) -> String {
    match nearest(word, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the {what} are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_few_nearest_are_found_by_their_last_part_too() {
        let names = ["copy/lstm", "copy/sab", "copy/100-sab", "adding/sab", "copy/sab"];
        assert_eq!(nearest_few("sba", names)[..2], ["adding/sab", "copy/sab"]);
        assert_eq!(nearest_few("copy/lsmt", names)[0], "copy/lstm");
        assert!(nearest_few("sab", []).is_empty());
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name_and_nonsense_with_all() {
        assert_eq!(did_you_mean("cpoy", &["adding", "copy"], "tasks"), "did you mean `copy`?");
        assert_eq!(did_you_mean("zzz", &["adding", "copy"], "tasks"), "the tasks are adding, copy");
    }
}
