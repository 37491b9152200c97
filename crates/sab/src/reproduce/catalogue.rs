//! [`Catalogue`]: tables and experiments, built into the program or read from a folder.

use super::table::{Budget, Table};
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, nearest};
use crate::run_dir::files;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

/// The files of `experiments/` when the program was built.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The file that describes the table of a folder.
const TABLE_FILE: &str = "table.toml";

/// Tables and the experiments of their rows.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Texts by their path below `experiments/`.
    files: BTreeMap<String, String>,
    origin: String,
}

impl Catalogue {
    /// The experiments that are built into the program.
    pub fn built_in() -> Self {
        let files = BUILT_IN.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect();
        Self { files, origin: "experiments".into() }
    }

    /// The experiments of a folder with the layout of `experiments/`.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        // Without such a folder there are no files below it either, but the user gets the system's message.
        std::fs::read_dir(folder).map_err(|why| LabError::file("read", folder, &why))?;
        let mut texts = BTreeMap::new();
        for path in files::below(folder)?.iter().filter(|path| path.extension().is_some_and(|kind| kind == "toml")) {
            let text = std::fs::read_to_string(path).map_err(|why| LabError::file("read", path, &why))?;
            texts.insert(name_below(folder, path), text);
        }
        let catalogue = Self { files: texts, origin: folder.display().to_string() };
        match catalogue.names().is_empty() {
            true => Err(LabError::Config(format!(
                "{} has no tables: a table is a folder below it with a {TABLE_FILE}",
                folder.display()
            ))),
            false => Ok(catalogue),
        }
    }

    /// The names of the tables.
    pub fn names(&self) -> Vec<&str> {
        self.files.keys().filter_map(|path| path.strip_suffix(TABLE_FILE)?.strip_suffix('/')).collect()
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Result<Table> {
        let Some(text) = self.files.get(&format!("{name}/{TABLE_FILE}")) else {
            let names = self.names();
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the tables are {}", names.join(", ")),
            };
            return Err(LabError::Config(format!("there is no table `{name}`; {hint}")));
        };
        Table::of_text(name, text, &format!("{}/{name}/{TABLE_FILE}", self.origin))
    }

    /// The name of an experiment's file within a budget: `NAME.cpu` for a CPU if there is such a file, else `NAME`.
    pub fn variant(&self, experiment: &str, budget: Budget) -> String {
        let cpu = format!("{experiment}.cpu");
        match budget == Budget::Cpu && self.has(&cpu) {
            true => cpu,
            false => experiment.to_string(),
        }
    }

    /// Whether there is an experiment of this name.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(&format!("{name}.toml"))
    }

    /// An experiment by the name of its file, with a seed.
    pub fn experiment(&self, name: &str, seed: u64) -> Result<Experiment> {
        let (file, origin) = (format!("{name}.toml"), self.path_of(name));
        let Some(text) = self.files.get(&file) else {
            let all = self.files.keys().filter_map(|path| path.strip_suffix(".toml"));
            let hint = nearest(name, all).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(LabError::Config(format!("there is no experiment {origin}{hint}")));
        };
        let seed = i64::try_from(seed).unwrap_or(i64::MAX);
        // A table has many files: the message names the one with the wrong value.
        Experiment::of_text(text, &origin, &[("train.seed".into(), Value::Integer(seed))]).map_err(|why| match why {
            LabError::Config(why) if !why.contains(&origin) => LabError::Config(format!("{origin}: {why}")),
            why => why,
        })
    }

    /// The path of the file of an experiment, as a command line names it.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}/{name}.toml", self.origin)
    }
}

/// The path below `root`, with slashes on every system.
pub(super) fn name_below(root: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(root).unwrap_or(path).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
