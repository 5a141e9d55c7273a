//! What becomes of files that hold more than we have room for.

use super::*;
use crate::container::hdf5::index::LinkEntry;

/// Our own bounds are no problem of the file.
#[test]
fn what_there_is_no_room_for_is_left_out_and_no_problem() {
    let scratch = Arena::new();
    let file = scratch.create();
    let group = file.create_group("g").unwrap();
    for number in 0..10 {
        let data = group.new_dataset_builder().with_data(&[1, 2]);
        data.create(&*format!("d{number}")).unwrap();
    }
    drop((group, file));
    let opened = scratch.opened();
    let _lock = hdf5_sys::LOCK.lock();
    let root = links::token_of(&opened.file).unwrap();
    let walk = |links, bytes| FileWalk::within(&opened.file, root, links, bytes);
    let listed = |walk: &FileWalk<'_>| walk.groups[1].links.len();
    let others = |walk: &FileWalk<'_>| {
        let path: Vec<_> = walk
            .left_out
            .iter()
            .map(|part| part.path.join(&b'/'))
            .collect();
        path == [b"g/*".to_vec()] && walk.problems.is_empty()
    };
    let all = walk(11, u64::MAX);
    assert_eq!((listed(&all), all.left_out.len()), (10, 0));
    let few = walk(6, u64::MAX);
    assert!(listed(&few) == 5 && others(&few));
    let used = |bytes| walk(100, bytes).datasets.len();
    let short = walk(100, (0..10_000).find(|b| used(*b) == 5).unwrap());
    assert!(listed(&short) == 5 && others(&short));
    // Room for another link, but not for what it leads to.
    let short = walk(100, (0..10_000).rfind(|b| used(*b) == 5).unwrap());
    assert!(listed(&short) > 5 && short.problems.is_empty());
    let lost = |link: &LinkEntry| matches!(link.target, LinkTarget::NotFollowed { .. });
    assert!(short.groups[1].links[5..].iter().all(lost));
}
