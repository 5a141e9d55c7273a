//! The write that completes a block returns it as complete, whatever was done before.

use super::*;
use crate::array::chunking::{ChunkId, Chunking, EvenChunks};

const SIZE: u64 = 60;

fn blocks(layer: &Layer, array: WrittenArray) -> Arc<dyn Chunking> {
    Arc::new(EvenChunks::whole(SIZE, layer.len(array)))
}

/// The blocks of which every byte is staged.
fn staged(layer: &Layer, array: WrittenArray) -> Vec<u64> {
    let is_staged = |number: &u64| {
        let mut parts = Vec::new();
        layer.parts(array, number * SIZE..(number + 1) * SIZE, &mut parts);
        parts.iter().all(|part| matches!(part, Part::Staged(_)))
    };
    let all = 0..blocks(layer, array).chunks();
    all.filter(is_staged).collect()
}

proptest! {
    #[test]
    fn the_write_that_completes_a_block_tells_it(
        actions in actions(60),
        budget in prop_oneof![Just(0u64), Just(1 << 20)],
        encodes in any::<bool>(),
    ) {
        let mut model = Model::new(budget);
        for action in &actions {
            let Action::Write(array, at, len, _) = *action else {
                model.act(action);
                continue;
            };
            let array = WrittenArray(array);
            let layer = model.stage.layers().remove(0);
            let before = staged(&layer, array);
            model.act(action);
            let told = layer.complete(array, &blocks(&layer, array), &(at..at + len as u64));
            let after = staged(&layer, array);
            prop_assert!(told.iter().all(|number| after.contains(number)));
            let mut completed = after.iter().filter(|number| !before.contains(number));
            prop_assert!(completed.all(|number| told.contains(number)), "{told:?} of {after:?}");
            for number in told.into_iter().filter(|_| encodes) {
                let block = ChunkId { shape: SIZE, number };
                prop_assert!(layer.begin_encoding(array, block).is_some());
            }
        }
    }
}
