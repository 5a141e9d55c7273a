//! What shells and programs do to files, done to arrays.

use std::path::Path;

use super::{assert_stored, both_ways, container, either_way};
use crate::harness::place::Place;
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::tools::shell;

both_ways![
    processes_append_without_losing_a_line,
    tools_make_an_array_longer_and_shorter,
];
either_way![
    redirections_write_what_all_commands_say,
    cp_and_dd_write_over_an_array,
    an_array_is_copied_to_an_array,
];

fn processes_append_without_losing_a_line(place: &Place) {
    container(place, "x.blp", b"");
    let append = "for who in a b c; do (
            i=0
            while [ $i -lt 100 ]; do echo $who-$i >> $1; i=$((i + 1)); done
        ) & done
        (i=0; while [ $i -lt 100 ]; do echo d-$i; i=$((i + 1)); done >> $1) &
        wait";
    let path = place.join("x.blp/data");
    shell(place.path(), append, &[&path]);
    let found = std::fs::read_to_string(&path).unwrap();
    let lines = || (0..100).flat_map(|i| ["a", "b", "c", "d"].map(|who| format!("{who}-{i}")));
    let mut expected: Vec<String> = lines().collect();
    let mut sorted: Vec<&str> = found.lines().collect();
    expected.sort();
    sorted.sort();
    assert_eq!(sorted, expected);
    assert_stored(&place.stored("x.blp"), found.as_bytes());
}

fn redirections_write_what_all_commands_say(place: &Place) {
    let path = &place.join("x.blp/data");
    let cases = [
        ("(echo a; echo b) > $1", "a\nb\n"),
        ("(echo a; /bin/echo b; echo c) >> $1", "a\nb\na\nb\nc\n"),
        ("{ /bin/echo x; /bin/echo y; } > $1", "x\ny\n"),
        (
            "(/bin/echo 1; (sleep 0; /bin/echo 2) & wait) > $1",
            "1\n2\n",
        ),
        (": > $1", ""),
        ("printf abc | tee $1 > /dev/null", "abc"),
        ("printf def | tee -a $1 > /dev/null", "abcdef"),
        ("printf X 1<> $1", "Xbcdef"),
        (
            "exec 3<> $1; cat <&3 > /dev/null; printf more >&3",
            "Xbcdefmore",
        ),
    ];
    container(place, "x.blp", b"what was there before");
    for (script, expected) in cases {
        shell(place.path(), script, &[path]);
        assert_content(path, expected.as_bytes());
        assert_stored(&place.stored("x.blp"), expected.as_bytes());
    }
}

fn cp_and_dd_write_over_an_array(place: &Place) {
    let mut random = Seeded::new(1);
    let (old, new) = (random.rising(200_000), random.rising(300_000));
    container(place, "x.blp", &old);
    std::fs::write(place.stored("new"), &new).unwrap();
    let (path, from) = (place.join("x.blp/data"), place.stored("new"));
    let inode = "stat -c %i $2";
    let before = shell(place.path(), inode, &[&from, &path]).text();
    shell(place.path(), "cp $1 $2; cmp $1 $2", &[&from, &path]);
    assert_stored(&place.stored("x.blp"), &new);
    let dd = "dd if=$1 of=$2 conv=notrunc,fsync bs=1000 seek=17 skip=200 count=50 status=none";
    shell(place.path(), dd, &[&from, &path]);
    let mut expected = new.clone();
    expected.copy_within(200_000..250_000, 17_000);
    assert_content(&path, &expected);
    assert_stored(&place.stored("x.blp"), &expected);
    // Without `notrunc` it is cut where dd begins.
    let dd = "dd if=$1 of=$2 bs=1000 seek=10 count=5 status=none";
    shell(place.path(), dd, &[&from, &path]);
    expected.truncate(10_000);
    expected.extend(&new[..5000]);
    assert_content(&path, &expected);
    assert_stored(&place.stored("x.blp"), &expected);
    assert_eq!(shell(place.path(), inode, &[&from, &path]).text(), before);
    // Back into an ordinary file.
    shell(
        place.path(),
        "cp $2 $1; cmp $1 $2",
        &[&place.join("copy"), &path],
    );
    assert_content(&place.stored("copy"), &expected);
}

fn tools_make_an_array_longer_and_shorter(place: &Place) {
    let mut expected = Seeded::new(2).rising(100_000);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    for (script, len) in [
        ("truncate -s 250000 $1", 250_000),
        ("truncate -s -200000 $1", 50_000),
        ("fallocate -l 80000 $1", 80_000),
        ("truncate -s 0 $1", 0),
        ("fallocate -l 3000 $1", 3000),
    ] {
        shell(place.path(), script, &[path]);
        expected.resize(len, 0);
        assert_content(path, &expected);
        assert_stored(&place.stored("x.blp"), &expected);
    }
    shell(
        place.path(),
        "printf 0123456789 | dd of=$1 conv=notrunc status=none",
        &[path],
    );
    shell(
        place.path(),
        "fallocate -p -o 2 -l 3 $1; fallocate -z -o 8 -l 4 $1",
        &[path],
    );
    expected[..10].copy_from_slice(b"01\0\0\x0056\x37\0\0");
    assert_content(path, &expected);
    assert_stored(&place.stored("x.blp"), &expected);
}

fn an_array_is_copied_to_an_array(place: &Place) {
    let plain = Seeded::new(3).rising(500_000);
    container(place, "x.blp", &plain);
    container(place, "y.blp", b"another one");
    let (from, to) = (place.join("x.blp/data"), place.join("y.blp/data"));
    shell(place.path(), "cp $1 $2", &[&from, &to]);
    for name in ["x.blp", "y.blp"] {
        assert_content(&place.join(name).join("data"), &plain);
        assert_stored(&place.stored(name), &plain);
    }
    shell(place.path(), "cat $1 $1 > $2", &[&from, &to]);
    assert_stored(&place.stored("y.blp"), &[&plain[..], &plain].concat());
    assert_eq!(std::fs::read(Path::new(&from)).unwrap(), plain);
}
