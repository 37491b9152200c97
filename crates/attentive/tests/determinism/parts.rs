//! No part's bits depend on the number of threads or on the other rows of the batch (R14).

use super::{SETS, check_row_alone, check_threads, fused};
use crate::common::parts::{each_combination, each_part};
use attentive::{Hops, InstructionSet, SabLstmConfig, ScoreGradient};

fn base(input: usize, hidden: usize) -> SabLstmConfig {
    SabLstmConfig::new(input, hidden).with_k_top(2).with_k_trunc(5).with_trunc_phase(0)
}

#[test]
fn threads_do_not_change_a_bit_of_any_part_or_pair() {
    for (number, (_, config)) in each_combination(&base(3, 128)).into_iter().enumerate() {
        let config = match number % 2 {
            0 => config.with_score_gradient(ScoreGradient::Full),
            _ => config.with_hops(Hops::One),
        };
        check_threads(&config, number % 3 == 0, 13, 20, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_of_a_wide_layer_of_any_part() {
    for (number, (_, config)) in each_part(&base(2, 336)).into_iter().enumerate() {
        let config = config.with_score_gradient(ScoreGradient::Full);
        check_threads(&config, number % 2 == 0, 3, 8, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_of_any_part_without_vector_instructions() {
    for (number, (_, config)) in each_part(&base(3, 130)).into_iter().enumerate() {
        check_threads(&config, number % 2 == 0, 7, 6, &fused(InstructionSet::Baseline));
    }
}

#[test]
fn a_row_has_the_same_bits_alone_as_in_a_batch_with_any_part_or_pair() {
    for instructions in SETS {
        for (hidden, batch) in [(5, 3), (33, 7)] {
            for (number, (_, config)) in each_combination(&base(3, hidden)).into_iter().enumerate() {
                let config = config.with_score_gradient(ScoreGradient::Full);
                check_row_alone(&config, number % 2 == 0, (batch, 12), number as u64, instructions);
            }
        }
    }
}
