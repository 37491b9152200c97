//! The examples run to the end, and their own assertions are the test. They are modules here, so that one program holds
//! all.
#![allow(dead_code, reason = "each has a `main`")]

#[path = "../examples/in_a_model.rs"]
mod in_a_model;
#[path = "../examples/stream.rs"]
mod stream;

/// Burn has one random number generator per process, so the examples seed it one after another.
static SEED: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn a_layer_in_a_larger_model_learns_and_is_saved() {
    let _alone = SEED.lock();
    in_a_model::run().expect("the example runs");
}

#[test]
fn a_stream_has_the_bits_of_the_whole_sequence() {
    let _alone = SEED.lock();
    stream::run().expect("the example runs");
}
