//! Every kernel, on every instruction set that this CPU has, against plain code in `f64`.

use super::attention::{EXPONENT_LIMIT, Projection, ScoresBackward};
use super::cell::CellBackward;
use super::gemm::{PANEL, PackedMatrix};
use super::simd::{LANES, Portable, Simd};
use super::{Kernels, math};

fn both() -> Vec<&'static Kernels> {
    vec![Kernels::detect(), Kernels::portable()]
}

/// Numbers without a pattern, in -scale..scale.
fn numbers(len: usize, seed: u64, scale: f32) -> Vec<f32> {
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

#[track_caller]
fn close(got: &[f32], right: impl IntoIterator<Item = f64>, tolerance: f64) {
    for (i, (got, right)) in got.iter().zip(right).enumerate() {
        let error = (f64::from(*got) - right).abs();
        assert!(error <= tolerance * right.abs().max(1.0), "element {i}: {got} instead of {right}");
    }
}

fn sigmoid(x: f64) -> f64 {
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
            // SAFETY: eight floats each; `available` was checked at run time.
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
                // Relative: a gate that is nearly shut keeps its digits.
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
    // The generic functions are compiled without AVX2 here, which only makes them slow.
    #[cfg(target_arch = "x86_64")]
    check::<super::simd::Avx2>(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
}

#[test]
fn products_agree_with_plain_code_and_rows_do_not_influence_each_other() {
    for kernels in both() {
        for (rows, k, n) in [(1, 1, 16), (2, 7, 16), (7, 16, 32), (13, 700, 48), (32, 33, 16), (5, 321, 16)] {
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
            // SAFETY: extents as the kernel asks.
            unsafe { (kernels.accumulate_outer)(rows, k, packed.as_ptr(), b.as_ptr(), c.as_mut_ptr(), PANEL) };
            close(&c, right, 1e-5);
            let mut sum = vec![0.25; PANEL];
            // SAFETY: extents as the kernel asks.
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

/// The cell in f64: i, f, g, o, c, h_hat from pre-activations.
fn cell(pre: &[f32], input: Option<&[f32]>, before: &[f32], hidden: usize) -> Vec<[f64; 6]> {
    (0..hidden)
        .map(|u| {
            let gate = |g: usize| f64::from(pre[g * hidden + u]) + input.map_or(0.0, |x| f64::from(x[g * hidden + u]));
            let (i, f, g, o) = (sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3)));
            let c = f * f64::from(before[u]) + i * g;
            [i, f, g, o, c, o * c.tanh()]
        })
        .collect()
}

#[test]
fn r1_cell_agrees_with_plain_code_forward_and_backward() {
    let hidden = 32;
    for kernels in both() {
        for with_input in [false, true] {
            let pre = numbers(4 * hidden, 7, 3.0);
            let input = numbers(4 * hidden, 8, 3.0);
            let before = numbers(hidden, 9, 2.0);
            let right = cell(&pre, with_input.then_some(&input), &before, hidden);
            let mut gates = pre.clone();
            let (mut c, mut h_hat) = (vec![0.0; hidden], vec![0.0; hidden]);
            let x = if with_input { input.as_ptr() } else { std::ptr::null() };
            for units in [(0, 16), (16, 32)] {
                // SAFETY: extents as the kernel asks.
                unsafe {
                    (kernels.cell_forward)(
                        hidden,
                        units,
                        gates.as_mut_ptr(),
                        x,
                        before.as_ptr(),
                        c.as_mut_ptr(),
                        h_hat.as_mut_ptr(),
                    );
                }
            }
            for gate in 0..4 {
                close(&gates[gate * hidden..][..hidden], right.iter().map(|unit| unit[gate]), 1e-6);
            }
            close(&c, right.iter().map(|unit| unit[4]), 2e-6);
            close(&h_hat, right.iter().map(|unit| unit[5]), 2e-6);

            let (d_h, d_c) = (numbers(hidden, 10, 1.0), numbers(hidden, 11, 1.0));
            let mut d_gates = vec![0.0; 4 * hidden];
            let (mut d_before, mut again) = (vec![0.0; hidden], vec![0.0; hidden]);
            let row = CellBackward {
                gates: gates.as_ptr(),
                cell: c.as_ptr(),
                cell_before: before.as_ptr(),
                d_h_hat: d_h.as_ptr(),
                d_cell: d_c.as_ptr(),
                d_gates: d_gates.as_mut_ptr(),
                d_cell_before: d_before.as_mut_ptr(),
                h_hat: again.as_mut_ptr(),
                batch: 1,
            };
            // SAFETY: extents as the kernel asks.
            unsafe { (kernels.cell_backward)(hidden, (0, hidden), row) };
            assert_eq!(again, h_hat, "h_hat is made again bit for bit");
            // Against central differences of the plain code.
            let loss = |pre: &[f32], before: &[f32]| -> f64 {
                let units = cell(pre, with_input.then_some(&input), before, hidden);
                let parts = units.iter().enumerate().map(|(u, x)| x[5] * f64::from(d_h[u]) + x[4] * f64::from(d_c[u]));
                parts.sum()
            };
            let step = 1.0 / 256.0;
            let slope = |values: &[f32], i: usize, f: &dyn Fn(&[f32]) -> f64| {
                let mut moved = values.to_vec();
                moved[i] = values[i] + step;
                let up = f(&moved);
                moved[i] = values[i] - step;
                (up - f(&moved)) / f64::from(2.0 * step)
            };
            close(&d_gates, (0..4 * hidden).map(|i| slope(&pre, i, &|pre| loss(pre, &before))), 2e-4);
            close(&d_before, (0..hidden).map(|i| slope(&before, i, &|before| loss(&pre, before))), 2e-4);
        }
    }
}

#[test]
fn r3_scores_and_their_derivatives_agree_with_plain_code() {
    let (len, slots) = (48, 5);
    for kernels in both() {
        let (p, q) = (numbers(slots * len, 12, EXPONENT_LIMIT), numbers(len, 13, EXPONENT_LIMIT));
        let w3 = numbers(len, 14, 1.0);
        let (mut keys, mut query) = (p.clone(), q.clone());
        // SAFETY: extents as the kernels ask.
        unsafe {
            for slot in 0..slots {
                assert!((kernels.to_exponentials)(len, keys[slot * len..].as_mut_ptr()));
            }
            assert!((kernels.to_exponentials)(len, query.as_mut_ptr()));
            let mut huge = q.clone();
            huge[len - 1] = EXPONENT_LIMIT * 1.01;
            let before = huge.clone();
            assert!(!(kernels.to_exponentials)(len, huge.as_mut_ptr()), "steps aside");
            assert_eq!(huge, before);
        }
        let mut scores = vec![0.0; slots];
        // SAFETY: extents as the kernel asks.
        unsafe { (kernels.scores)(len, slots, keys.as_ptr(), query.as_ptr(), w3.as_ptr(), scores.as_mut_ptr()) };
        let tanh = |slot: usize, i: usize| (f64::from(p[slot * len + i]) + f64::from(q[i])).tanh();
        let right = |slot: usize| (0..len).map(|i| f64::from(w3[i]) * (tanh(slot, i) - 1.0)).sum::<f64>();
        close(&scores, (0..slots).map(right), 1e-5);

        let (chosen, d_scores) = ([3, 1], [0.7, -0.4]);
        let (mut d_query, mut d_w3) = (vec![f32::NAN; len], vec![0.5; len]);
        let (mut d_new, mut d_old) = (vec![f32::NAN; len], vec![1.0; len]);
        let row = ScoresBackward {
            keys: &chosen.map(|slot| keys[slot * len..].as_ptr()),
            d_scores: &d_scores,
            query: query.as_ptr(),
            w3: w3.as_ptr(),
            d_query: d_query.as_mut_ptr(),
            d_keys: &[d_new.as_mut_ptr(), d_old.as_mut_ptr()],
            first: &[true, false],
            d_w3: d_w3.as_mut_ptr(),
        };
        // SAFETY: extents as the kernel asks.
        unsafe { (kernels.scores_backward)(len, row) };
        let d = |j: usize, i: usize| f64::from(d_scores[j]) * f64::from(w3[i]) * (1.0 - tanh(chosen[j], i).powi(2));
        close(&d_new, (0..len).map(|i| d(0, i)), 1e-6);
        close(&d_old, (0..len).map(|i| 1.0 + d(1, i)), 1e-6);
        close(&d_query, (0..len).map(|i| d(0, i) + d(1, i)), 1e-6);
        // Adjoints of a row's scores add up to 0; the kernel leaves out what that cancels.
        let d_w = |i: usize| (0..2).map(|j| f64::from(d_scores[j]) * (tanh(chosen[j], i) - 1.0)).sum::<f64>();
        close(&d_w3, (0..len).map(|i| 0.5 + d_w(i)), 1e-6);
    }
}

#[test]
fn r3_huge_projections_are_paired_whichever_way_they_are_kept() {
    let len = 96;
    for kernels in both() {
        for (key_scale, query_scale) in [(1.0, 1.0), (2.0, 1.0), (1.0, 2.0), (3.0, 3.0), (1e6, 1.0), (1e6, 1e6)] {
            let p = numbers(len, 15, EXPONENT_LIMIT * key_scale);
            let mut q = numbers(len, 16, EXPONENT_LIMIT * query_scale);
            // Half of them nearly cancel, as far as the query's own range goes: only there is tanh not ±1.
            let (near, most) = (numbers(len, 17, 3.0), EXPONENT_LIMIT * query_scale);
            for i in (0..len).step_by(2) {
                q[i] = (near[i] - p[i]).clamp(-most, most);
            }
            let (mut key, mut query) = (p.clone(), q.clone());
            let mut pair = vec![f32::NAN; len];
            // SAFETY: all are of one length, a multiple of 16.
            unsafe {
                let key_exponential = (kernels.to_exponentials)(len, key.as_mut_ptr());
                let query_exponential = (kernels.to_exponentials)(len, query.as_mut_ptr());
                assert_eq!((key_exponential, query_exponential), (key_scale <= 1.0, query_scale <= 1.0));
                let key = Projection { values: &key, exponential: key_exponential };
                let query = Projection { values: &query, exponential: query_exponential };
                (kernels.pair_exponentials)(key, query, &mut pair);
            }
            let tanh: Vec<f32> = pair.iter().map(|pair| 1.0 - 2.0 / (1.0 + pair)).collect();
            let right = |i: usize| (f64::from(p[i]) + f64::from(q[i])).tanh();
            close(&tanh, (0..len).map(right), 1e-5);
        }
        let (raw, fine) = (vec![f32::NAN; 16], vec![1.0; 16]);
        for exponential in [false, true] {
            let mut pair = vec![0.0; 16];
            let (key, query) =
                (Projection { values: &raw, exponential: false }, Projection { values: &fine, exponential });
            // SAFETY: as above.
            unsafe { (kernels.pair_exponentials)(key, query, &mut pair) };
            assert!(pair.iter().all(|x| x.is_nan()), "a NaN stays one");
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
        // SAFETY: extents as the kernels ask.
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
