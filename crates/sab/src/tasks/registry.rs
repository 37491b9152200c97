//! The list of tasks, and all that follows from it.

/// Declares the tasks. The name of a task is that of its module; its keys are the fields of the type, which is a
/// [`TaskKind`](super::TaskKind).
macro_rules! registry {
    ($($module:ident::$kind:ident,)+) => {
        /// The settings of a task. The key `name` says which task it is; each has keys of its own.
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "name", rename_all = "lowercase")]
        pub enum TaskSettings {
            $(
                #[doc = concat!("[`", stringify!($module), "`]")]
                $kind($module::$kind),
            )+
        }

        /// The names of the tasks.
        pub const TASK_NAMES: &[&str] = &[$(stringify!($module)),+];

        impl TaskSettings {
            /// All tasks with their defaults, in the order of their names.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$kind($module::$kind::default())),+]
            }

            /// The name of the task.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => stringify!($module),)+
                }
            }

            /// The keys of the task and everything it declares.
            pub fn kind(&self) -> &dyn $crate::tasks::TaskKind {
                match self {
                    $(Self::$kind(kind) => kind,)+
                }
            }

            fn kind_mut(&mut self) -> &mut dyn $crate::tasks::TaskKind {
                match self {
                    $(Self::$kind(kind) => kind,)+
                }
            }
        }
    };
}
pub(super) use registry;
