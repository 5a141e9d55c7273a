//! A small C project: compiled, linked, run from where it lies, compiled again when a header
//! changes.

use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::tools::{shell, tools};
use crate::harness::wait_until;

scenarios![
    everywhere
    make_builds_what_changed_and_nothing_else,
    a_script_runs_from_where_it_lies
];

const PARTS: usize = 12;

const MAKEFILE: &str = "parts := $(patsubst %.c,%.o,$(wildcard part*.c))
program: main.o libparts.a
\tcc -o $@ main.o -L. -lparts
libparts.a: $(parts)
\trm -f $@ && ar rc $@ $^
%.o: %.c parts.h
\tcc -c -o $@ $<
";

fn write_project(directory: &Path) {
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    write("Makefile", MAKEFILE);
    let (mut header, mut sum) = ("#define START 1\n".to_owned(), "START".to_owned());
    for part in 0..PARTS {
        header += &format!("int part{part}(void);\n");
        sum += &format!(" + part{part}()");
        let body = format!("#include \"parts.h\"\nint part{part}(void) {{ return {part}; }}\n");
        write(&format!("part{part}.c"), &body);
    }
    write("parts.h", &header);
    let main = "#include <stdio.h>\n#include \"parts.h\"\nint main(void) { printf(\"%d\\n\", ";
    write("main.c", &format!("{main}{sum}); return 0; }}\n"));
}

/// What make did, line by line.
fn build(directory: &Path) -> Vec<String> {
    let said = shell(directory, "make -j2 program", &[]).text();
    said.lines().map(str::to_owned).collect()
}

fn make_builds_what_changed_and_nothing_else(place: &Place) {
    if !tools(&["make", "cc", "ar"]) {
        return;
    }
    let directory = place.join("project");
    std::fs::create_dir(&directory).unwrap();
    write_project(&directory);
    assert_eq!(build(&directory).len(), PARTS + 3);
    assert_eq!(shell(&directory, "./program", &[]).text(), "67\n");
    assert_eq!(build(&directory), ["make: 'program' is up to date."]);
    write_newer(
        &directory.join("part3.c"),
        "int part3(void) { return 100; }\n",
    );
    assert_eq!(build(&directory).len(), 3);
    assert_eq!(shell(&directory, "./program", &[]).text(), "164\n");
    shell(
        &directory,
        "strip program && ./program && rm program *.o && make -s program",
        &[],
    );
}

/// Clocks of file systems tick coarsely, and make compares.
fn write_newer(path: &Path, text: &str) {
    let program = path.with_file_name("program");
    let time = |path: &Path| path.metadata().unwrap().modified().unwrap();
    wait_until("the clock ticks", || {
        std::fs::write(path, text).unwrap();
        time(path) > time(&program)
    });
}

fn a_script_runs_from_where_it_lies(place: &Place) {
    let script = "printf '#!/bin/sh\\necho ran $1\\n' > script && chmod +x script && ./script once";
    assert_eq!(shell(place.path(), script, &[]).text(), "ran once\n");
}
