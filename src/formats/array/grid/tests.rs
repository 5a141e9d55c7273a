//! Runs against a loop over elements, for ranks 0 to 4.

use super::*;
use proptest::prelude::*;

/// An array, its chunks and the size of an element; chunks may be longer than the array.
fn cases() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, u64)> {
    let axis = (1u64..7, 1u64..8, any::<bool>());
    (prop::collection::vec(axis, 0..5), 1u64..5).prop_map(|(axes, element)| {
        let dims = axes.iter().map(|(len, ..)| *len).collect();
        // Every other dimension is spanned, so that there is something to join.
        let chunk = axes
            .iter()
            .map(|(len, chunk, spans)| if *spans { *len } else { *chunk });
        (dims, chunk.collect(), element)
    })
}

/// ChunkEntry and place within it of every byte of the array.
fn naive(dims: &[u64], chunk: &[u64], element: u64) -> Vec<(u64, u64)> {
    let elements: u64 = dims.iter().product();
    let mut places = Vec::new();
    for number in 0..elements {
        let mut rest = number;
        let mut at = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            at[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        let (mut chunk_number, mut within) = (0, 0);
        for axis in 0..dims.len() {
            chunk_number = chunk_number * dims[axis].div_ceil(chunk[axis]) + at[axis] / chunk[axis];
            within = within * chunk[axis] + at[axis] % chunk[axis];
        }
        places.extend((0..element).map(|byte| (chunk_number, within * element + byte)));
    }
    places
}

fn runs(grid: &ChunkGrid, range: Range<u64>) -> Vec<ChunkRun> {
    let mut runs = Vec::new();
    let visited = grid.runs(range, &mut |run| {
        runs.push(run);
        Ok::<(), ()>(())
    });
    visited.unwrap();
    runs
}

proptest! {
    #[test]
    fn runs_lead_to_every_byte(
        (dims, chunk, element) in cases(),
        a in 0u64..3000,
        b in 0u64..3000,
    ) {
        let grid = ChunkGrid::new(&dims, &chunk, element).unwrap();
        let expected = naive(&dims, &chunk, element);
        let (a, b) = (a.min(grid.bytes), b.min(grid.bytes));
        let mut at = a.min(b);
        let mut found = Vec::new();
        for run in runs(&grid, at..a.max(b)) {
            prop_assert_eq!(run.at, at);
            prop_assert!(run.take > 0 && run.take <= grid.longest_run());
            prop_assert!(run.chunk < grid.chunks() && run.skip + run.take <= grid.chunk_bytes());
            found.extend((0..run.take).map(|byte| (run.chunk, run.skip + byte)));
            at += run.take;
        }
        prop_assert_eq!(&found[..], &expected[a.min(b) as usize..a.max(b) as usize]);
    }

    #[test]
    fn the_rows_of_a_chunk_are_its_bytes((dims, chunk, element) in cases()) {
        let grid = ChunkGrid::new(&dims, &chunk, element).unwrap();
        let expected = naive(&dims, &chunk, element);
        for number in 0..grid.chunks() {
            let mut found = Vec::new();
            grid.rows(number, &mut |row| found.extend(row));
            let bytes = (0u64..).zip(&expected).filter(|(_, place)| place.0 == number);
            let bytes: Vec<u64> = bytes.map(|(at, _)| at).collect();
            prop_assert_eq!(grid.first_byte(number), bytes[0]);
            prop_assert_eq!(grid.is_partial(number), (bytes.len() as u64) < grid.chunk_bytes());
            prop_assert_eq!(found, bytes);
        }
    }
}

#[test]
fn dimensions_that_chunks_span_are_joined() {
    let grid = ChunkGrid::new(&[100, 20, 30], &[7, 20, 30], 4).unwrap();
    let run = |at, chunk, skip, take| ChunkRun {
        at,
        chunk,
        skip,
        take,
    };
    let chunk = 7 * 20 * 30 * 4;
    assert_eq!(
        runs(&grid, 10..2 * chunk + 5),
        [
            run(10, 0, 10, chunk - 10),
            run(chunk, 1, 0, chunk),
            run(2 * chunk, 2, 0, 5)
        ]
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused =
        |dims: &[u64], chunk: &[u64], element| ChunkGrid::new(dims, chunk, element).is_err();
    assert!(refused(&[3], &[2, 2], 1));
    assert!(refused(&[3], &[0], 1));
    assert!(refused(&[3], &[1 << 32], 1));
    assert!(refused(&[3, 3], &[1 << 31, 2], 1));
    assert!(refused(&[1 << 62], &[4], 2));
    assert!(refused(&[u64::MAX, u64::MAX], &[1, 1], 8));
    assert!(!refused(&[1 << 62], &[1], 1));
}

#[test]
fn an_empty_dimension_leaves_nothing() {
    let grid = ChunkGrid::new(&[u64::MAX, 0, u64::MAX], &[3, 3, 3], 8).unwrap();
    assert_eq!((grid.bytes, grid.chunks()), (0, 0));
    assert_eq!(runs(&grid, 0..100), []);
    assert!(!grid.is_partial(0));
    grid.rows(0, &mut |_| panic!("a row of nothing"));
}

#[test]
fn the_last_bytes_of_a_vast_array_are_found() {
    let grid = ChunkGrid::new(&[1 << 31, 1 << 31], &[1000, 1000], 1).unwrap();
    let end = 1u64 << 62;
    let last = runs(&grid, end - 3..end);
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].chunk, grid.chunks() - 1);
}
