use super::*;

const TRAINING: u32 = 30;
const TEST: u32 = 11;

fn idx(magic: u32, sizes: &[u32], content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let head = [&[magic][..], sizes].concat();
    let bytes: Vec<u8> = head.iter().flat_map(|number| number.to_be_bytes()).chain(content.iter().copied()).collect();
    encoder.write_all(&bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// The pixels of all images, training first: each image is different and has the darkest and the brightest pixel.
fn pixels() -> Vec<Vec<u8>> {
    let pixel = |image: u32, at: u32| match at {
        0 => 0,
        1 => 255,
        _ => ((image * 784 + at).wrapping_mul(2_654_435_761) >> 24) as u8,
    };
    (0..TRAINING + TEST).map(|image| (0..784).map(|at| pixel(image, at)).collect()).collect()
}

fn pmnist(place: &Place, seed: &str) -> Box<dyn Task> {
    let all = pixels();
    let (training, test) = all.split_at(TRAINING as usize);
    for (name, images, first) in [("train", training, 0), ("t10k", test, TRAINING)] {
        let count = images.len() as u32;
        let labels: Vec<u8> = (first..first + count).map(|image| (image % 10) as u8).collect();
        place.write(&format!("data/mnist/{name}-images-idx3-ubyte.gz"), idx(2051, &[count, 28, 28], &images.concat()));
        place.write(&format!("data/mnist/{name}-labels-idx1-ubyte.gz"), idx(2049, &[count], &labels));
    }
    task_in(&place.path("data"), "pmnist", &[("task.permutation_seed", seed), ("task.validation", "8")])
}

fn permutation(task: &dyn Task) -> Vec<u16> {
    task.facts().permutation.expect("an order in the facts")
}

/// Which images a batch shows, by their pixels in the order of the facts.
fn images(task: &dyn Task, batch: &Batch) -> Vec<u32> {
    let (all, order) = (pixels(), permutation(task));
    assert_eq!((batch.steps, &batch.asked), (784, &Asked::From(783)));
    let image = |(row, label): (&[f32], &i32)| {
        let shown = |image: &Vec<u8>| {
            let right = |at: &u16| f32::from(image[usize::from(*at)]) / 255.0 - 0.5;
            order.iter().map(right).zip(row).all(|(right, seen)| (right - seen).abs() < 1e-6)
        };
        let found = all.iter().position(shown).expect("an image of the files") as u32;
        assert_eq!(found % 10, *label as u32);
        found
    };
    dense(batch).into_iter().zip(classes(batch)).map(image).collect()
}

#[test]
fn the_order_of_pixels_is_a_permutation_drawn_from_its_seed() {
    let place = Place::new();
    let one = permutation(&*pmnist(&place, "1"));
    let mut sorted = one.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..784).collect::<Vec<u16>>());
    assert_ne!(one, sorted);
    assert_eq!(one, permutation(&*pmnist(&place, "1")));
    assert_ne!(one, permutation(&*pmnist(&place, "2")));
}

#[test]
fn pixels_are_scaled_to_half_below_and_above_nothing() {
    let place = Place::new();
    let pmnist = pmnist(&place, "3");
    for row in dense(&pmnist.training_batch(1, 0, 4)) {
        let (least, most) = row.iter().fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(*x), most.max(*x)));
        assert_eq!((least, most), (-0.5, 0.5));
    }
}

#[test]
fn validation_takes_the_last_training_images_and_they_never_train() {
    let place = Place::new();
    let pmnist = pmnist(&place, "3");
    let shown =
        |batches: Vec<Batch>| -> Vec<u32> { batches.iter().flat_map(|batch| images(&*pmnist, batch)).collect() };
    assert_eq!(shown(held_out(&*pmnist, Split::Validation, 3)), (22..30).collect::<Vec<_>>());
    assert_eq!(shown(held_out(&*pmnist, Split::Test, 3)), (30..41).collect::<Vec<_>>());
    for seed in 0..3 {
        let mut pass = shown(first_pass(&*pmnist, seed, 2));
        assert_ne!(pass, (0..22).collect::<Vec<_>>());
        pass.sort_unstable();
        assert_eq!(pass, (0..22).collect::<Vec<_>>(), "each training image once");
    }
}

#[test]
fn held_out_batches_cover_what_there_is_whatever_the_rows() {
    let place = Place::new();
    let pmnist = pmnist(&place, "3");
    rows_do_not_matter(&*pmnist, Split::Validation, 8);
    rows_do_not_matter(&*pmnist, Split::Test, 11);
}
