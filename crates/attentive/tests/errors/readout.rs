//! Mistakes of a caller with a readout.

use crate::{PATHS, device, expect_message, ones};
use attentive::{SabReadout, SabReadoutConfig};
use burn::module::Param;
use burn::tensor::{DType, Tensor};

#[test]
fn a_readout_with_other_shapes_is_an_error() {
    let readout = SabReadoutConfig::new(4, 2).init(&device());
    for path in PATHS {
        let attempt = |h: [usize; 3], s: [usize; 3]| readout.forward_by(ones(h), ones(s), path);
        expect_message(attempt([1, 2, 5], [1, 2, 4]), &["`hidden`", "[1, 2, 5]", "4 last"]);
        expect_message(attempt([1, 2, 4], [1, 2, 5]), &["`summary`", "[1, 2, 5]", "4 last"]);
        expect_message(attempt([1, 2, 4], [1, 3, 4]), &["`summary`", "[1, 3, 4]", "the shape of `hidden`"]);
        expect_message(attempt([1, 2, 0], [1, 2, 0]), &["`hidden`", "[1, 2, 0]", "4 last"]);
        assert_eq!(attempt([0, 2, 4], [0, 2, 4]).expect("no rows are fine").dims(), [0, 2, 2]);
        let f64s = || ones([1, 2, 4]).cast(DType::F64);
        expect_message(readout.forward_by(f64s(), ones([1, 2, 4]), path), &["`hidden` is F64", "F32"]);
        expect_message(readout.forward_by(ones([1, 2, 4]), f64s(), path), &["`summary` is F64", "F32"]);

        let with = |change: &dyn Fn(&mut SabReadout)| {
            let mut readout = readout.clone();
            change(&mut readout);
            readout.forward_by(ones([1, 2, 4]), ones([1, 2, 4]), path)
        };
        let of = |shape: [usize; 2]| Param::from_tensor(Tensor::<2>::zeros(shape, &device()));
        expect_message(with(&|r| r.v2 = of([4, 3])), &["`v2`", "[4, 3]", "[4, 2] is needed"]);
        expect_message(with(&|r| r.v1 = of([3, 2])), &["`v2`", "[4, 2]", "[3, 2] is needed"]);
        let bias = || Param::from_tensor(Tensor::<1>::zeros([3], &device()));
        expect_message(with(&|r| r.bias = bias()), &["`bias`", "[3]", "[2] is needed"]);
    }
}

#[test]
fn a_readout_of_size_0_is_found_by_validate_and_init_does_not_panic() {
    for (config, field) in
        [(SabReadoutConfig::new(0, 2), "`hidden` is 0"), (SabReadoutConfig::new(4, 0), "`output` is 0")]
    {
        expect_message(config.validate(), &[field, "at least 1"]);
        let readout = config.init(&device());
        assert!(readout.forward(ones([1, 2, 3]), ones([1, 2, 3])).is_err(), "the sizes count as 1");
    }
}

#[test]
fn a_readout_with_weights_of_size_0_does_not_panic() {
    for (units, outputs) in [(0, 2), (4, 0)] {
        let of = || Param::from_tensor(Tensor::<2>::zeros([units, outputs], &device()));
        let bias = Param::from_tensor(Tensor::<1>::zeros([outputs], &device()));
        let readout = SabReadout { v1: of(), v2: of(), bias };
        for path in PATHS {
            assert!(readout.forward_by(ones([1, 2, units]), ones([1, 2, units]), path).is_err(), "{path:?}");
        }
    }
}
