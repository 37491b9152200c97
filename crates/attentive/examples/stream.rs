//! Inference on a stream: one step at a time, with a state that is saved, restored, and reset for single rows.
//!
//! ```text
//! cargo run --release -p attentive --example stream
//! ```
//!
//! The program follows three sensors at once, one per row of the batch. In the middle it "ends": it writes the state to
//! a file and reads it back. Later the second sensor is replaced, and its row starts afresh. Every output has the same
//! bits as if the whole sequence ran in one call (R14). It prints:
//!
//! ```text
//! saved and restored after 100 steps: 51 memories per sensor
//! steps of each sensor after the second was replaced: [150, 0, 150]
//! the last step of the first sensor was reminded of steps [0, 40, 28, 22]
//! all 600 outputs have the bits of the whole sequence
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, SabLstmConfig, SabReadoutConfig, SabState, SabStateRecord};
use burn::tensor::{Device, Tensor, TensorData};
use std::error::Error;

const SENSORS: usize = 3;
const STEPS: usize = 200;
/// The steps at which the state is saved and read again, and at which the second sensor is replaced.
const SAVED: usize = 100;
const REPLACED: usize = 150;

/// The readings of the sensors at a step: `[SENSORS, 2]`.
fn reading(step: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> =
        (0..SENSORS * 2).map(|place| ((step * (place + 3)) as f32 * 0.37 + place as f32).sin()).collect();
    Tensor::from_data(TensorData::new(values, [SENSORS, 2]), device)
}

/// Follows the sensors step by step and compares with whole sequences.
pub fn run() -> Result<(), Box<dyn Error>> {
    let device = Device::flex(); // no autodiff: nothing is kept for a backward pass
    device.seed(1);
    let lstm = SabLstmConfig::new(2, 32).with_k_top(4).with_k_att(2).try_init(&device)?;
    let readout = SabReadoutConfig::new(32, 1).init(&device);
    let options = ForwardOptions::new().with_reminders(4);
    let file = std::env::temp_dir().join(format!("stream-{}.json", std::process::id()));

    let mut state: Option<SabState> = None;
    let mut streamed = Vec::new();
    for step in 0..STEPS {
        if step == SAVED {
            // A state is plain data for any serde format.
            let record = state.take().ok_or("steps were taken")?.to_record();
            std::fs::write(&file, serde_json::to_vec(&record)?)?;
            let record: SabStateRecord = serde_json::from_slice(&std::fs::read(&file)?)?;
            let restored = SabState::from_record(record, &device)?;
            println!("saved and restored after {SAVED} steps: {} memories per sensor", restored.slots(0));
            state = Some(restored);
        }
        if step == REPLACED
            && let Some(state) = &mut state
        {
            state.reset(&[1])?;
            println!("steps of each sensor after the second was replaced: {:?}", state.steps());
        }
        let out = lstm.step_with(reading(step, &device), state, &options)?;
        streamed.push(readout.forward(out.hidden, out.summary)?); // [SENSORS, 1]
        if step + 1 == STEPS
            && let Some(reminders) = out.reminders
        {
            let steps: Vec<u64> = reminders.at(0, 0).iter().map(|reminder| reminder.step).collect();
            println!("the last step of the first sensor was reminded of steps {steps:?}");
        }
        state = Some(out.state);
    }
    std::fs::remove_file(&file)?;
    let streamed = Tensor::stack::<3>(streamed, 1); // [SENSORS, STEPS, 1]

    // The same in one call. The second sensor takes two calls, the second one from a fresh state.
    let readings = Tensor::stack::<3>((0..STEPS).map(|step| reading(step, &device)).collect(), 1);
    let whole = readout.read(&lstm.forward(readings.clone(), None)?)?;
    let after = readout.read(&lstm.forward(readings.narrow(1, REPLACED, STEPS - REPLACED), None)?)?;
    let sensor = |outputs: &Tensor<3>, row: usize, from: usize, steps: usize| {
        outputs.clone().narrow(0, row, 1).narrow(1, from, steps).to_data()
    };
    for row in [0, 2] {
        assert_eq!(sensor(&streamed, row, 0, STEPS), sensor(&whole, row, 0, STEPS));
    }
    assert_eq!(sensor(&streamed, 1, 0, REPLACED), sensor(&whole, 1, 0, REPLACED));
    assert_eq!(sensor(&streamed, 1, REPLACED, STEPS - REPLACED), sensor(&after, 1, 0, STEPS - REPLACED));
    println!("all {} outputs have the bits of the whole sequence", SENSORS * STEPS);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run()
}
