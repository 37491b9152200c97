//! Random numbers and the order of training data.

use sab::rng::{Draws, Purpose};
use sab::tasks::EpochOrder;

#[test]
fn numbers_depend_on_purpose_seed_and_number_and_on_nothing_else() {
    let draw = |purpose, seed, number| {
        let mut draws = Draws::new(purpose, seed, number);
        [(); 8].map(|()| draws.below(1 << 40))
    };
    let first = draw(Purpose::Training, 1, 1);
    assert_eq!(first, draw(Purpose::Training, 1, 1));
    for other in [draw(Purpose::Test, 1, 1), draw(Purpose::Training, 2, 1), draw(Purpose::Training, 1, 2)] {
        assert_ne!(first, other);
    }
}

#[test]
fn numbers_are_the_same_on_every_machine() {
    let mut draws = Draws::new(Purpose::Training, 1, 2);
    let drawn = [(); 6].map(|()| draws.below(1000));
    assert_eq!(drawn, [37, 765, 263, 560, 263, 905]);
}

#[test]
fn bounded_numbers_and_fractions_stay_in_range_and_reach_everything() {
    let mut draws = Draws::new(Purpose::Epoch, 3, 0);
    let mut seen = [0; 7];
    for _ in 0..7000 {
        seen[draws.below(7)] += 1;
    }
    assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    let mean = (0..10_000).map(|_| draws.fraction()).inspect(|x| assert!((0.0..1.0).contains(x))).sum::<f32>() / 1e4;
    assert!((mean - 0.5).abs() < 0.02, "{mean}");
}

#[test]
fn shuffling_keeps_every_item() {
    let mut items: Vec<usize> = (0..100).collect();
    Draws::new(Purpose::Epoch, 3, 1).shuffle(&mut items);
    assert_ne!(items, (0..100).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_pass_uses_every_item_once_and_the_next_pass_another_order() {
    let order = EpochOrder::default();
    let pass = |epoch: u64| -> Vec<usize> { (0..5).flat_map(|b| order.batch(7, epoch * 5 + b, 20, 4)).collect() };
    let (first, second) = (pass(0), pass(1));
    assert_ne!(first, second);
    assert_eq!(first, pass(0));
    for mut items in [first, second] {
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn fewer_items_than_rows_are_used_again() {
    let items = EpochOrder::default().batch(1, 0, 3, 7);
    assert!(items.len() == 7 && items.iter().all(|item| *item < 3));
    assert!(EpochOrder::default().batch(1, 0, 0, 7).is_empty());
}
