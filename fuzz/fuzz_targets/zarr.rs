#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayfs::fuzzing::run("zarr", data));
