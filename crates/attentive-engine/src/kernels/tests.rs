//! Tests every kernel, on every instruction set of this CPU, against plain code in `f64`.

use super::gemm::{FEW_ROWS, PANEL, PackedMatrix};
use super::simd::{LANES, Portable, Simd};
use super::vector::{square_distance, square_sum};
use super::{InstructionSet, Isa, Kernels, math};

/// The best instruction set of this CPU, and the one that every CPU has.
pub(crate) fn both_isas() -> [Isa; 2] {
    [Isa::from(InstructionSet::Detect), Isa::Portable]
}

fn both() -> [&'static Kernels; 2] {
    both_isas().map(Kernels::of)
}

/// Pseudorandom numbers in -scale..scale.
pub(crate) fn numbers(len: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            ((x >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
        })
        .collect()
}

/// Asserts that each error is within `tolerance` times the expected number, or times 1 if that is larger.
#[track_caller]
pub(crate) fn close(got: &[f32], right: impl IntoIterator<Item = f64>, tolerance: f64) {
    for (i, (got, right)) in got.iter().zip(right).enumerate() {
        let error = (f64::from(*got) - right).abs();
        assert!(error <= tolerance * right.abs().max(1.0), "element {i}: {got} instead of {right}");
    }
}

/// The derivative of `f` with respect to `values[i]`, by a central difference.
pub(crate) fn slope(values: &[f32], i: usize, step: f32, f: &dyn Fn(&[f32]) -> f64) -> f64 {
    let mut moved = values.to_vec();
    let mut at = |by: f32| {
        moved[i] = values[i] + by;
        (f64::from(moved[i]), f(&moved))
    };
    let (up, down) = (at(step), at(-step));
    // Rounding may change the distance of the two floats.
    (up.1 - down.1) / (up.0 - down.0)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn functions_are_accurate_over_their_range_and_keep_nan() {
    fn check<S: Simd>(available: bool) {
        if !available {
            return;
        }
        let points: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.03).collect();
        for x in points.chunks_exact(LANES) {
            let mut y = [[0.0_f32; LANES]; 3];
            // SAFETY: eight floats each; the caller checked `available` at run time.
            unsafe {
                let v = S::load(x.as_ptr());
                S::store(y[0].as_mut_ptr(), math::exp::<S>(v));
                S::store(y[1].as_mut_ptr(), math::sigmoid::<S>(v));
                S::store(y[2].as_mut_ptr(), math::tanh::<S>(v));
            }
            for (i, &x) in x.iter().enumerate() {
                let [exp, sigmoid_of_x, tanh] = [0, 1, 2].map(|function| y[function][i]);
                let x = f64::from(x);
                assert!((f64::from(exp) / x.clamp(-87.0, 87.0).exp() - 1.0).abs() < 3e-7, "exp {x}");
                // Relative error: a gate that is nearly shut keeps its digits.
                let right = sigmoid(x.clamp(-87.0, 87.0));
                assert!((f64::from(sigmoid_of_x) / right - 1.0).abs() < 5e-7, "sigmoid {x}");
                assert!(sigmoid_of_x.is_normal() && sigmoid_of_x <= 1.0, "sigmoid {x}");
                assert!((f64::from(tanh) - x.tanh()).abs() < 5e-7, "tanh {x}");
                assert!(tanh.abs() <= 1.0, "tanh {x}: {tanh}");
                assert!(x.abs() < 9.1 || tanh.abs() == 1.0, "tanh {x} has no slope");
            }
        }
        let mut y = [0.0; LANES];
        // SAFETY: as above.
        unsafe {
            let nan = S::splat(f32::NAN);
            for value in [math::exp::<S>(nan), math::sigmoid::<S>(nan), math::tanh::<S>(nan)] {
                S::store(y.as_mut_ptr(), value);
                assert!(y.iter().all(|x| x.is_nan()));
            }
        }
    }
    check::<Portable>(true);
    // Here the generic functions are compiled without AVX2, which only makes them slow.
    #[cfg(target_arch = "x86_64")]
    check::<super::simd::Avx2>(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
}

#[test]
fn products_agree_with_plain_code_and_rows_do_not_influence_each_other() {
    for kernels in both() {
        for (rows, k, n) in
            [(1, 1, 16), (2, 7, 16), (7, 16, 32), (13, 700, 48), (32, 33, 16), (5, 321, 16), (4, 641, 112)]
        {
            let a = numbers(rows * k, 1, 1.0);
            let b = numbers(k * n, 2, 1.0);
            let mut packed = PackedMatrix::new(k, n);
            for (panel, slice) in packed.panels_mut().enumerate() {
                for (i, to) in slice.chunks_exact_mut(PANEL).enumerate() {
                    to.copy_from_slice(&b[i * n + panel * PANEL..][..PANEL]);
                }
            }
            let start = numbers(rows * n, 3, 1.0);
            let multiply = |first: usize, rows: usize, add: bool| {
                let mut c = start[first * n..(first + rows) * n].to_vec();
                for panel in 0..n / PANEL {
                    // SAFETY: a has rows of k, c rows of n floats, and the panel lies inside them.
                    unsafe {
                        let c = c[panel * PANEL..].as_mut_ptr();
                        let a = a[first * k..].as_ptr();
                        (kernels.multiply_panel)(rows, k, a, k, packed.panel(panel).as_ptr(), c, n, add);
                    }
                }
                c
            };
            for add in [false, true] {
                let right = (0..rows * n).map(|i| {
                    let (row, column) = (i / n, i % n);
                    let sum: f64 = (0..k).map(|j| f64::from(a[row * k + j]) * f64::from(b[j * n + column])).sum();
                    sum + if add { f64::from(start[i]) } else { 0.0 }
                });
                let all = multiply(0, rows, add);
                close(&all, right, 1e-5);
                for row in 0..rows {
                    assert_eq!(multiply(row, 1, add), all[row * n..(row + 1) * n], "row {row} of {rows}");
                }
            }
            for few in 1..=rows.min(FEW_ROWS) {
                let (panels, stride) = (n / PANEL, k * PANEL);
                let mut c = vec![f32::NAN; few * n];
                // SAFETY: as above; the panels are adjacent.
                unsafe {
                    let first = packed.panel(0).as_ptr();
                    (kernels.multiply_few)(few, k, a.as_ptr(), k, panels, first, stride, c.as_mut_ptr(), n);
                }
                assert_eq!(c, multiply(0, few, false), "{few} rows at once");
            }
        }
    }
}

#[test]
fn outer_products_agree_with_plain_code() {
    for kernels in both() {
        for (rows, k) in [(1, 3), (4, 9), (6, 10), (11, 256), (96, 40), (10, 3)] {
            let a = numbers(k * rows, 4, 1.0);
            let b = numbers(k * PANEL, 5, 1.0);
            let left: Vec<&[f32]> = a.chunks_exact(rows).collect();
            let mut packed = vec![0.0; rows * k];
            // SAFETY: the kernels are those of this CPU.
            unsafe { (kernels.pack_left)(rows, 0, &left, &mut packed) };
            let mut c = numbers(rows * PANEL, 6, 1.0);
            let right: Vec<f64> = (0..rows * PANEL)
                .map(|i| {
                    let products =
                        (0..k).map(|j| f64::from(a[j * rows + i / PANEL]) * f64::from(b[j * PANEL + i % PANEL]));
                    f64::from(c[i]) + products.sum::<f64>()
                })
                .collect();
            // SAFETY: extents as the kernel requires.
            unsafe { (kernels.accumulate_outer)(rows, k, packed.as_ptr(), b.as_ptr(), c.as_mut_ptr(), PANEL) };
            close(&c, right, 1e-5);
            let mut sum = vec![0.25; PANEL];
            // SAFETY: extents as the kernel requires.
            unsafe { (kernels.add_columns)(k, b.as_ptr(), sum.as_mut_ptr()) };
            let column = |i: usize| (0..k).map(|j| f64::from(b[j * PANEL + i])).sum::<f64>();
            close(&sum, (0..PANEL).map(|i| 0.25 + column(i)), 1e-5);
        }
    }
}

#[test]
fn right_hand_sides_are_packed_panel_by_panel() {
    const WIDTH: usize = 3 * PANEL;
    for kernels in both() {
        for pairs in [1, 3, 4, 9, 256] {
            let values = numbers(pairs * WIDTH, 7, 1.0);
            let rows: Vec<*const f32> = values.chunks_exact(WIDTH).map(<[f32]>::as_ptr).collect();
            let panels = [2, 0];
            let mut packed = vec![0.0; panels.len() * pairs * PANEL];
            // SAFETY: each row has three panels; the kernels are those of this CPU.
            unsafe { (kernels.pack_right)(&panels, &rows, &mut packed) };
            let of_panel = |panel: &usize| {
                let start = panel * PANEL;
                values.chunks_exact(WIDTH).flat_map(move |row| row[start..start + PANEL].to_vec())
            };
            assert_eq!(packed, panels.iter().flat_map(of_panel).collect::<Vec<f32>>(), "{pairs} pairs");
        }
    }
}

#[test]
fn r7_summaries_dots_and_sums_agree_with_plain_code() {
    let len = 80;
    for kernels in both() {
        let memories: Vec<Vec<f32>> = (0..3).map(|i| numbers(len, 20 + i, 1.0)).collect();
        let pointers: Vec<*const f32> = memories.iter().map(|m| m.as_ptr()).collect();
        let (weights, h_hat) = ([0.5, 0.3, 0.2], numbers(len, 30, 1.0));
        let (mut summary, mut hidden, mut copy) = (vec![0.0; len], vec![0.0; len], vec![0.0; len]);
        let (mut sum, mut pair) = (memories[0].clone(), vec![0.0; len]);
        // SAFETY: extents as the kernels require.
        let dot = unsafe {
            let to = [summary.as_mut_ptr(), hidden.as_mut_ptr(), copy.as_mut_ptr()];
            (kernels.summarise)(len, &weights, &pointers, h_hat.as_ptr(), to[0], to[1], to[2]);
            (kernels.sum)(len, pointers[1], pointers[2], pair.as_mut_ptr());
            (kernels.scaled)(len, 0.25, pointers[1], sum.as_mut_ptr(), true);
            (kernels.dot)(len, pointers[0], pointers[1])
        };
        let value = |m: usize, i: usize| f64::from(memories[m][i]);
        let s = |i: usize| (0..3).map(|m| f64::from(weights[m]) * value(m, i)).sum::<f64>();
        close(&summary, (0..len).map(s), 1e-6);
        close(&hidden, (0..len).map(|i| s(i) + f64::from(h_hat[i])), 1e-6);
        assert_eq!(hidden, copy);
        close(&pair, (0..len).map(|i| value(1, i) + value(2, i)), 1e-6);
        close(&sum, (0..len).map(|i| value(0, i) + 0.25 * value(1, i)), 1e-6);
        close(&[dot], [(0..len).map(|i| value(0, i) * value(1, i)).sum()], 1e-5);
    }
}

#[test]
fn squares_add_up_in_double_precision_whatever_their_size() {
    for (len, scale) in [(1, 1.0), (7, 1e-30), (16, 1.0), (33, 1e30), (80, f32::MAX), (48, 1e-44)] {
        let (a, b) = (numbers(len, 40, scale), numbers(len, 41, scale));
        let values = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let right: f64 = values(&a).iter().map(|x| x * x).sum();
        assert!((square_sum(&a) - right).abs() <= 1e-14 * right, "{len} of {scale}");
        let right: f64 = values(&a).iter().zip(values(&b)).map(|(x, y)| (x - y) * (x - y)).sum();
        assert!(right > 0.0 && right.is_finite());
        assert!((square_distance(&a, &b) - right).abs() <= 1e-14 * right, "{len} of {scale}");
        assert_eq!(square_distance(&a, &a), 0.0);
    }
    assert_eq!((square_sum(&[]), square_sum(&[0.0, -0.0])), (0.0, 0.0));
}
