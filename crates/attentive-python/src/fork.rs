//! Processes that fork, such as the workers of PyTorch's `DataLoader`.
//!
//! A child of a fork has the memory of its parent but only one of its threads. If another thread were in the engine at
//! that moment, and held the lock of the engine's pool of buffers, nobody would ever open it in the child. So a fork waits
//! until no call is running. Buffers are also given back outside of calls, but only by a thread that holds the GIL, which
//! is then the thread that forks.

use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CALLS: RwLock<()> = RwLock::new(());

thread_local! {
    /// What the thread that forks holds, in the parent and in the child.
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Held while a call runs, without the GIL.
pub(crate) fn running() -> RwLockReadGuard<'static, ()> {
    CALLS.read().unwrap_or_else(PoisonError::into_inner)
}

/// To be called before a fork: waits for running calls and lets no other begin. They need no GIL to end.
#[pyfunction(name = "_before_fork")]
pub(crate) fn before() {
    FORKING.set(Some(CALLS.write().unwrap_or_else(PoisonError::into_inner)));
}

/// To be called after a fork, on both sides.
#[pyfunction(name = "_after_fork")]
pub(crate) fn after() {
    FORKING.set(None);
}
