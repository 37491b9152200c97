//! [`Table`]: a table of the paper, as `experiments/TABLE/table.toml` describes it.

use crate::error::{LabError, Result};
use crate::runs::At;
use serde::Deserialize;

/// The size of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Budget {
    /// A few hours of a CPU: smaller models or fewer updates where the paper's size is out of reach
    Cpu,
    /// The paper's size
    Paper,
}

/// A table of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name of its folder.
    #[serde(skip)]
    pub name: String,
    /// The name of its files, without their endings.
    #[serde(skip)]
    pub stem: String,
    /// Whether it shows records that need no experiment to be run again.
    #[serde(skip)]
    pub of_records: bool,
    /// Its title.
    pub title: String,
    /// The paper's table.
    pub source: String,
    /// How to read it.
    pub about: String,
    /// The metrics of each row.
    #[serde(alias = "figures")]
    pub metrics: Vec<Metric>,
    /// Lengths at which trained models are judged. If there are any, there is a column for each length.
    #[serde(default)]
    pub lengths: Vec<At>,
    /// Whether the metrics are those of validation. Such a table serves to choose settings, so it shows nothing of the
    /// test set.
    #[serde(default)]
    pub validation: bool,
    /// The rows, in groups.
    pub groups: Vec<Group>,
    /// A figure of attention at some points of training.
    #[serde(default)]
    pub attention: Option<AttentionFigure>,
}

/// A metric of the task that the table reports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The task's name for it.
    pub name: String,
    /// The table's heading for it, with its unit.
    pub heading: String,
    /// The table shows the metric times this: 100 for percent.
    #[serde(default = "one")]
    pub factor: f64,
}

fn one() -> f64 {
    1.0
}

/// A group of rows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The settings that they share; may be empty.
    #[serde(default)]
    pub heading: String,
    /// The metrics that these rows show; all of the table's metrics if none is named.
    #[serde(default, alias = "figures")]
    pub metrics: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row: an experiment and what the paper reports for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the row.
    pub label: String,
    /// The file of the experiment below `experiments/`, without its ending.
    pub experiment: String,
    /// The paper's metrics as printed, one per column; empty if the paper has none.
    #[serde(default)]
    pub paper: Vec<String>,
    /// The default number of seeds.
    #[serde(default = "one_seed")]
    pub seeds: u64,
    /// Whether it has alternative settings: the row above falls short of the paper, and these were tried instead. The
    /// table shows such a row; the figure, which compares rows with the same settings, does not.
    #[serde(default, alias = "remedy")]
    pub alternative: bool,
}

fn one_seed() -> u64 {
    1
}

/// Attention at some points of training.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionFigure {
    /// The experiment, one of the rows.
    pub experiment: String,
    /// The updates at which it is shown.
    pub updates: Vec<u64>,
    /// How many of the last steps are shown.
    pub last: usize,
}

/// A column of metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Column<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// The length at which it was measured, if not the length of the training.
    pub at: Option<&'a At>,
    /// Whether it is a metric of validation.
    pub validation: bool,
}

impl Column<'_> {
    /// The heading.
    pub fn heading(&self) -> String {
        match (self.at, self.validation) {
            (Some(at), _) => format!("{} at {at}", self.metric.heading),
            (None, true) => format!("validation {}", self.metric.heading),
            (None, false) => self.metric.heading.clone(),
        }
    }
}

impl Table {
    pub(super) fn of_text(name: &str, text: &str, origin: &str) -> Result<Self> {
        let wrong = |why: String| LabError::Config(format!("{origin}: {why}"));
        let mut table: Table = toml::from_str(text).map_err(|why| wrong(why.to_string()))?;
        (table.name, table.stem) = (name.to_string(), name.to_string());
        for group in &table.groups {
            let known = |name: &&String| table.metrics.iter().any(|metric| metric.name == **name);
            if let Some(name) = group.metrics.iter().find(|name| !known(name)) {
                return Err(wrong(format!("a group has the metric `{name}`, which is not among `metrics`")));
            }
            let columns = table.columns(group).len();
            for (place, row) in group.rows.iter().enumerate() {
                let (label, given) = (&row.label, row.paper.len());
                // The lines of a chart need different labels. Better said now than after hours of training.
                if group.rows[..place].iter().any(|before| before.label == *label) {
                    return Err(wrong(format!("two rows of a group have the label \"{label}\": give each its own")));
                }
                if given > columns {
                    return Err(wrong(format!(
                        "the row \"{label}\" has {given} metrics of the paper for {columns} columns"
                    )));
                }
                if row.alternative && place == 0 {
                    return Err(wrong(format!(
                        "the row \"{label}\" has alternative settings, but there is no row above it"
                    )));
                }
                if row.seeds == 0 {
                    return Err(wrong(format!("the row \"{label}\" has no seeds: it needs at least 1")));
                }
            }
        }
        if let Some(asked) = &table.attention
            && table.rows().all(|row| row.experiment != asked.experiment)
        {
            return Err(wrong(format!(
                "the attention figure shows `{}`, which is not a row of the table",
                asked.experiment
            )));
        }
        if table.metrics.is_empty() {
            return Err(wrong("`metrics` is empty: name at least one metric of the task".into()));
        }
        Ok(table)
    }

    /// The columns of metrics of a group, in their order.
    pub fn columns(&self, group: &Group) -> Vec<Column<'_>> {
        let chosen = |metric: &&Metric| group.metrics.is_empty() || group.metrics.contains(&metric.name);
        let metrics: Vec<&Metric> = self.metrics.iter().filter(chosen).collect();
        let with = |at| metrics.iter().map(move |metric| Column { metric, at, validation: self.validation });
        match self.lengths.is_empty() {
            true => with(None).collect(),
            false => self.lengths.iter().flat_map(|at| with(Some(at))).collect(),
        }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }
}
