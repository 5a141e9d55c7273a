//! Zeros that a program asked for, however many.

use super::*;

#[test]
fn a_terabyte_of_zeros_takes_no_room() {
    const LEN: u64 = 1 << 40;
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let array = WrittenArray(0);
    stage.write(array, 0, &[7; 1000]).unwrap();
    stage.write_zeros(array, 100..LEN).unwrap();
    stage.write(array, LEN / 2, b"in between").unwrap();
    assert_eq!(stage.len(array), LEN);
    stage.sync().unwrap();
    assert!(stage.bytes_held() + stage.logged().map_or(0, |log| log.1) <= 64 << 10);
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    for layer in [&stage.layers()[0], &found.layers()[0]] {
        let mut parts = Vec::new();
        layer.parts(array, 0..LEN, &mut parts);
        let middle = LEN / 2..LEN / 2 + 10;
        let expected = [
            Part::Staged(0..100),
            Part::Zeros(100..middle.start),
            Part::Staged(middle.clone()),
            Part::Zeros(middle.end..LEN),
        ];
        assert_eq!(parts, expected);
        let whole = 0..LEN;
        assert_eq!(layer.changed(array), [whole]);
    }
}

/// Zeros are reported to readers as far as these go on, in whichever layer they are.
#[test]
fn zeros_are_known_before_they_are_read() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let array = WrittenArray(0);
    stage.write_zeros(array, 100..200).unwrap();
    stage.freeze(&mut to_nobody).unwrap();
    stage.write_zeros(array, 200..250).unwrap();
    stage.write(array, 260, b"x").unwrap();
    let overlay = container.overlay(0, &stage.layers());
    for (range, zeros) in [
        (100..300, 150),
        (120..140, 20),
        (99..300, 0),
        (260..300, 0),
        (250..260, 0),
    ] {
        assert_eq!(crate::array::Array::zeros_ahead(&overlay, range), zeros);
    }
    stage.set_len(array, 2000).unwrap();
    let overlay = container.overlay(0, &stage.layers());
    assert_eq!(crate::array::Array::zeros_ahead(&overlay, 500..2000), 1500);
}
