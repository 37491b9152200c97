//! The parameters in the form that the kernels need: padded, and packed once per call.

use crate::aligned::Aligned;
use crate::cells::Layout;
use crate::error::Result;
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::model::Model;
use crate::parameters::{BIAS, WEIGHT_HH, WEIGHT_IH, check_finite, check_lengths};
use crate::problem::{Inputs, Problem};
use crate::team;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packs a matrix on several threads; `fill(panel, values)` fills a panel.
fn pack(k: usize, columns: usize, threads: usize, fill: impl Fn(usize, &mut [f32]) + Sync) -> PackedMatrix {
    let mut packed = PackedMatrix::new(k, columns);
    // A smaller matrix is packed before another thread has started.
    let threads = if k * columns < 1 << 19 { 1 } else { threads };
    {
        let panels: Vec<_> = packed.panels_mut().map(Mutex::new).collect();
        team::run(threads, |index| {
            for panel in team::share(panels.len(), index, threads) {
                // Each panel is locked once, by the one thread that owns it.
                let mut slice = panels[panel].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                fill(panel, &mut slice);
            }
        });
    }
    packed
}

/// The sizes that packing needs.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    padded: usize,
}

impl Sizes {
    /// The source of padded gate column `column` in a matrix whose blocks of columns fill the gate blocks `blocks`.
    fn source(self, blocks: &[usize], column: usize) -> Option<usize> {
        let (block, unit) = (column / self.padded, column % self.padded);
        let from = blocks.iter().position(|filled| *filled == block)?;
        (unit < self.hidden).then_some(from * self.hidden + unit)
    }

    /// Copies the rows of `matrix`, whose blocks of columns fill `blocks`, into a panel, from row `first_k` on.
    fn copy_rows(self, panel: usize, slice: &mut [f32], first_k: usize, matrix: &[f32], blocks: &[usize]) {
        let width = blocks.len() * self.hidden;
        // Panels never straddle two blocks: padded is a multiple of the panel width.
        let (first, last) = (panel * PANEL, panel * PANEL + PANEL - 1);
        let whole = self.source(blocks, first).filter(|_| self.source(blocks, last).is_some());
        for (row, values) in matrix.chunks_exact(width).enumerate() {
            let to = &mut slice[(first_k + row) * PANEL..][..PANEL];
            match whole {
                Some(from) => to.copy_from_slice(&values[from..from + PANEL]),
                None => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = self.source(blocks, first + i).map_or(0.0, |from| values[from]);
                    }
                }
            }
        }
    }

    /// Packs the transpose of `matrix`, `[rows, blocks * hidden]`. Its k runs over the gate blocks that the matrix
    /// fills, and its columns over the matrix's rows.
    fn pack_transposed(self, matrix: &[f32], blocks: &[usize], threads: usize) -> PackedMatrix {
        let width = blocks.len() * self.hidden;
        let (rows, filled) = (matrix.len() / width, Layout::range(blocks));
        pack(filled.len() * self.padded, rows, threads, |panel, slice| {
            for (column, row) in (panel * PANEL..rows.min((panel + 1) * PANEL)).enumerate() {
                let values = &matrix[row * width..(row + 1) * width];
                for (values, block) in values.chunks_exact(self.hidden).zip(blocks) {
                    let first = (block - filled.start) * self.padded * PANEL + column;
                    let to = slice[first..].iter_mut().step_by(PANEL);
                    to.zip(values).for_each(|(to, from)| *to = *from);
                }
            }
        })
    }
}

/// A matrix of the scorer has one block of columns.
const ONE_BLOCK: &[usize] = &[0];

/// The weights of the forward pass, packed for one kind of input. Several calls with the same parameters can share
/// them.
#[derive(Debug)]
pub struct PackedWeights {
    /// Unique in the process: keys made by other weights are of no use.
    pub(crate) id: u64,
    model: Model,
    /// `[h (, x, 1)] -> gates`: `[recurrent_width, blocks * padded]`
    pub(crate) gates: PackedMatrix,
    /// The projection of each token plus the bias, `[input, blocks * padded]`; empty for dense inputs.
    pub(crate) token_table: Aligned,
    /// For dense inputs, the bias of blocks that no input fills, `[blocks * padded]`; empty if there is none.
    pub(crate) constant: Aligned,
    /// The scorer's matrix for memories; empty without attention.
    pub(crate) key: PackedMatrix,
    /// The scorer's matrix for queries; `None` if it is the same.
    query: Option<PackedMatrix>,
    /// The scorer's vector, in whole panels.
    pub(crate) vector: Aligned,
}

impl PackedWeights {
    /// Packs the model's parameters, in the order of [`Model::parameters`], for tokens or for dense inputs.
    pub fn new(model: &Model, parameters: &[&[f32]], dense: bool, threads: usize) -> Result<Self> {
        model.check()?;
        let declared = model.parameters();
        check_lengths(&declared, parameters)?;
        check_finite(&declared, parameters)?;
        let layout = model.cell.part().layout();
        let (hidden, padded, threads) = (model.hidden, model.hidden.next_multiple_of(PANEL), threads.max(1));
        let sizes = Sizes { hidden, padded };
        let [weight_ih, weight_hh, bias] = [WEIGHT_IH, WEIGHT_HH, BIAS].map(|place| parameters[place]);
        let gate_width = layout.blocks * padded;
        let width = if dense { padded + model.input + 1 } else { padded };
        let gates = pack(width, gate_width, threads, |panel, slice| {
            sizes.copy_rows(panel, slice, 0, weight_hh, layout.hidden);
            if dense {
                sizes.copy_rows(panel, slice, padded, weight_ih, layout.input);
                sizes.copy_rows(panel, slice, padded + model.input, bias, layout.bias);
            }
        });
        let (mut token_table, mut constant) = (Aligned::default(), Aligned::default());
        let bias_of = |to: &mut [f32], block: usize| {
            let of_block = layout.bias.iter().position(|filled| *filled == block);
            if let Some(from) = of_block {
                to[block * padded..][..hidden].copy_from_slice(&bias[from * hidden..][..hidden]);
            }
        };
        if !dense {
            token_table = Aligned::zeros(model.input * gate_width);
            let rows =
                token_table.chunks_exact_mut(gate_width).zip(weight_ih.chunks_exact(layout.input.len() * hidden));
            for (to, from) in rows {
                (0..layout.blocks).for_each(|block| bias_of(to, block));
                for (from, block) in from.chunks_exact(hidden).zip(layout.input) {
                    let to = &mut to[block * padded..][..hidden];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                }
            }
        } else if (0..layout.blocks).any(|block| !layout.input.contains(&block)) {
            constant = Aligned::zeros(gate_width);
            (0..layout.blocks)
                .filter(|block| !layout.input.contains(block))
                .for_each(|block| bias_of(&mut constant, block));
        }
        let square = |place: usize| {
            if !model.attends() {
                return PackedMatrix::default();
            }
            pack(hidden, padded, threads, |panel, slice| {
                sizes.copy_rows(panel, slice, 0, parameters[place], ONE_BLOCK);
            })
        };
        let (key, query) = (model.scorer.key_weight(), model.scorer.query_weight());
        let vector = model.scorer.vector().map_or_else(Aligned::default, |place| {
            let mut vector = Aligned::zeros(parameters[place].len().next_multiple_of(PANEL));
            vector[..parameters[place].len()].copy_from_slice(parameters[place]);
            vector
        });
        static IDS: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            model: *model,
            gates,
            token_table,
            constant,
            key: square(key),
            query: (query != key).then(|| square(query)),
            vector,
        })
    }

    /// The scorer's matrix for queries.
    pub(crate) fn query(&self) -> &PackedMatrix {
        self.query.as_ref().unwrap_or(&self.key)
    }

    /// Whether they were packed for this model and this kind of input; a layer accepts both kinds.
    pub fn fits(&self, model: &Model, inputs: &Inputs) -> bool {
        // The limits of the gradient do not affect the packed weights.
        let parts = |model: &Model| (model.input, model.hidden, model.cell, model.scorer, model.attends());
        parts(&self.model) == parts(model) && self.token_table.is_empty() == matches!(inputs, Inputs::Dense)
    }
}

/// The weights of the backward pass: transposes.
pub(crate) struct BackwardWeights {
    /// gates -> h: `[hidden blocks * padded, padded]`
    pub(crate) weight_hh: PackedMatrix,
    /// gates -> x: `[input blocks * padded, input]`, if the gradient of the input is wanted.
    pub(crate) weight_ih: Option<PackedMatrix>,
    /// The scorer's matrices, if its gradient enters memories and queries.
    pub(crate) key: Option<PackedMatrix>,
    pub(crate) query: Option<PackedMatrix>,
}

impl BackwardWeights {
    pub(crate) fn new(problem: &Problem, parameters: &[&[f32]], input_gradient: bool) -> Self {
        let (model, layout, threads) = (&problem.model, problem.layout, problem.workers());
        let sizes = Sizes { hidden: problem.hidden, padded: problem.padded };
        let square =
            |wanted: bool, place: usize| wanted.then(|| sizes.pack_transposed(parameters[place], ONE_BLOCK, threads));
        Self {
            weight_hh: sizes.pack_transposed(parameters[WEIGHT_HH], layout.hidden, threads),
            weight_ih: input_gradient.then(|| sizes.pack_transposed(parameters[WEIGHT_IH], layout.input, threads)),
            key: square(model.scores_reach_memories(), model.scorer.key_weight()),
            query: square(model.scores_reach_queries(), model.scorer.query_weight()),
        }
    }
}
