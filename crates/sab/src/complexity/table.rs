//! Tables for the terminal and for Markdown.

/// Rows of texts under headings; the first columns are words, the rest are numbers and stand at the right.
pub struct Table {
    pub words: usize,
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns of equal width, with two blanks between them.
    pub fn to_text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|t| t.chars().count()).max();
        let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
        let cell = |(column, text): (usize, &String)| match (column < self.words, widths.get(column)) {
            (true, Some(width)) => format!("{text:<width$}"),
            (false, Some(width)) => format!("{text:>width$}"),
            (_, None) => text.clone(),
        };
        let line = |line: &&Vec<String>| {
            let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
            format!("{}\n", cells.join("  ").trim_end())
        };
        lines.iter().map(line).collect()
    }

    /// The same as Markdown.
    pub fn to_markdown(&self) -> String {
        let rule = |column: usize| if column < self.words { "---" } else { "---:" };
        let rules: Vec<&str> = (0..self.head.len()).map(rule).collect();
        let mut text = format!("| {} |\n|{}|\n", self.head.join(" | "), rules.join("|"));
        for row in &self.rows {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["longer".into(), "234".into()]];
        let table = Table { words: 1, head: vec!["name", "n"], rows };
        assert_eq!(table.to_text(), "name      n\na         1\nlonger  234\n");
        assert_eq!(table.to_markdown(), "| name | n |\n|---|---:|\n| a | 1 |\n| longer | 234 |\n");
    }
}
