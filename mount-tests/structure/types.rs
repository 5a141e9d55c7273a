//! The name of a type is defined once in all crates, so that it can be looked for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{SourceFile, identifier, sources};

impl SourceFile {
    /// Names of types that it defines, but for those of its tests.
    fn defined_types(&self) -> Vec<String> {
        let code = self.code();
        let code = code.split("#[cfg(test)]\nmod tests {").next();
        let lines = code.unwrap_or_default().lines();
        lines.filter_map(defined_type).collect()
    }
}

/// The type that a line begins to define. What is defined within an `impl` belongs to its trait.
fn defined_type(line: &str) -> Option<String> {
    let definition = match line.trim_start().split_once(") ") {
        Some((visible, rest)) if visible.starts_with("pub(in ") => rest,
        _ => line,
    };
    let words: Vec<&str> = definition.split_whitespace().collect();
    let kinds = ["struct", "enum", "union", "trait", "type"];
    let at = words.iter().position(|word| kinds.contains(word))?;
    let visible = words[..at].iter().all(|word| word.starts_with("pub"));
    let associated = words[at] == "type" && line.starts_with(' ');
    let name = identifier(words.get(at + 1)?);
    (visible && !associated && !name.is_empty()).then_some(name)
}

/// One word for one thing: a `Header` in a message, a review or a search says which one it is.
#[test]
fn a_type_name_is_defined_once() {
    let sources = sources("src");
    let only_for_tests: Vec<PathBuf> = sources.iter().flat_map(SourceFile::test_modules).collect();
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in &sources {
        if only_for_tests.iter().any(|path| file.is_module_at(path)) {
            continue;
        }
        for name in file.defined_types() {
            let path = file.path.display().to_string();
            defined.entry(name).or_default().push(path);
        }
    }
    assert!(defined.len() > 100, "{} types are found", defined.len());
    defined.retain(|_, places| places.len() > 1);
    assert!(defined.is_empty(), "defined more than once: {defined:#?}");
}

#[test]
fn definitions_of_types_are_recognised() {
    let text = "pub(in crate::x) struct A<'a> {\n}\nenum B { X }\ntype C<T> = D;\nimpl F for G {\n    type H = I;\n}\n\
                #[cfg(test)]\npub(super) mod sample;\nstruct J;\n#[cfg(test)]\nmod tests {\n    struct K;\n}\n";
    let mut file = SourceFile {
        path: "src/x/mod.rs".into(),
        text: text.into(),
    };
    assert_eq!(file.defined_types(), ["A", "B", "C", "J"]);
    let modules = ["src/x/sample", "src/x/tests"].map(PathBuf::from);
    assert_eq!(file.test_modules(), modules);
    file.path = "src/x/sample/y.rs".into();
    assert!(file.is_module_at(&modules[0]) && !file.is_module_at(&modules[1]));
}
