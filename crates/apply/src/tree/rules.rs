//! Tables of the node kinds that declare something in each language, and where their name is.

use crate::language::Language;
use serde::Serialize;

/// The kinds of declarations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub(crate) enum Kind {
    Function,
    /// A function without a body.
    Signature,
    Class,
    Struct,
    Enum,
    Trait,
    Impl,
    Module,
    Type,
    Constant,
    Field,
    Macro,
    Key,
    Table,
    Rule,
    Element,
}

/// Where the name of a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// In a field of it.
    In(&'static str),
    /// In its first named child.
    First,
    /// At the end of a chain of declarators.
    Declarator,
    /// The trait and the type of an `impl`.
    Impl,
    /// The receiver's type and the name.
    Method,
    /// In the attribute `id`.
    Id,
}

/// A kind of node that declares something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule(pub &'static str, pub Kind, pub Name);

const NAME: Name = Name::In("name");

const RUST: &[Rule] = &[
    Rule("function_item", Kind::Function, NAME),
    Rule("function_signature_item", Kind::Signature, NAME),
    Rule("struct_item", Kind::Struct, NAME),
    Rule("union_item", Kind::Struct, NAME),
    Rule("enum_item", Kind::Enum, NAME),
    Rule("trait_item", Kind::Trait, NAME),
    Rule("impl_item", Kind::Impl, Name::Impl),
    Rule("mod_item", Kind::Module, NAME),
    Rule("type_item", Kind::Type, NAME),
    Rule("const_item", Kind::Constant, NAME),
    Rule("static_item", Kind::Constant, NAME),
    Rule("field_declaration", Kind::Field, NAME),
    Rule("enum_variant", Kind::Field, NAME),
    Rule("macro_definition", Kind::Macro, NAME),
];
const PYTHON: &[Rule] = &[
    Rule("function_definition", Kind::Function, NAME),
    Rule("class_definition", Kind::Class, NAME),
    Rule("assignment", Kind::Constant, Name::In("left")),
];
/// JavaScript and TypeScript, whose nodes have the same names.
const SCRIPT: &[Rule] = &[
    Rule("function_declaration", Kind::Function, NAME),
    Rule("generator_function_declaration", Kind::Function, NAME),
    Rule("method_definition", Kind::Function, NAME),
    Rule("function_signature", Kind::Signature, NAME),
    Rule("method_signature", Kind::Signature, NAME),
    Rule("abstract_method_signature", Kind::Signature, NAME),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("abstract_class_declaration", Kind::Class, NAME),
    Rule("interface_declaration", Kind::Trait, NAME),
    Rule("enum_declaration", Kind::Enum, NAME),
    Rule("internal_module", Kind::Module, NAME),
    Rule("module", Kind::Module, NAME),
    Rule("type_alias_declaration", Kind::Type, NAME),
    Rule("variable_declarator", Kind::Constant, NAME),
    Rule("field_definition", Kind::Field, Name::In("property")),
    Rule("public_field_definition", Kind::Field, NAME),
    Rule("property_signature", Kind::Field, NAME),
    Rule("enum_assignment", Kind::Field, NAME),
    Rule("pair", Kind::Key, Name::In("key")),
];
const GO: &[Rule] = &[
    Rule("function_declaration", Kind::Function, NAME),
    Rule("method_declaration", Kind::Function, Name::Method),
    Rule("method_elem", Kind::Signature, NAME),
    Rule("type_spec", Kind::Type, NAME),
    Rule("type_alias", Kind::Type, NAME),
    Rule("const_spec", Kind::Constant, NAME),
    Rule("var_spec", Kind::Constant, NAME),
    Rule("field_declaration", Kind::Field, NAME),
];
const JAVA: &[Rule] = &[
    Rule("method_declaration", Kind::Function, NAME),
    Rule("constructor_declaration", Kind::Function, NAME),
    Rule("compact_constructor_declaration", Kind::Function, NAME),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("record_declaration", Kind::Class, NAME),
    Rule("interface_declaration", Kind::Trait, NAME),
    Rule("annotation_type_declaration", Kind::Trait, NAME),
    Rule("enum_declaration", Kind::Enum, NAME),
    Rule("enum_constant", Kind::Field, NAME),
    Rule("variable_declarator", Kind::Field, NAME),
];
/// C and C++.
const C: &[Rule] = &[
    Rule("function_definition", Kind::Function, Name::Declarator),
    Rule("declaration", Kind::Signature, Name::Declarator),
    Rule("field_declaration", Kind::Field, Name::Declarator),
    Rule("type_definition", Kind::Type, Name::Declarator),
    Rule("alias_declaration", Kind::Type, NAME),
    Rule("struct_specifier", Kind::Struct, NAME),
    Rule("union_specifier", Kind::Struct, NAME),
    Rule("class_specifier", Kind::Class, NAME),
    Rule("enum_specifier", Kind::Enum, NAME),
    Rule("enumerator", Kind::Field, NAME),
    Rule("namespace_definition", Kind::Module, NAME),
    Rule("preproc_def", Kind::Macro, NAME),
    Rule("preproc_function_def", Kind::Macro, NAME),
];
const CSHARP: &[Rule] = &[
    Rule("method_declaration", Kind::Function, NAME),
    Rule("constructor_declaration", Kind::Function, NAME),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("record_declaration", Kind::Class, NAME),
    Rule("struct_declaration", Kind::Struct, NAME),
    Rule("interface_declaration", Kind::Trait, NAME),
    Rule("enum_declaration", Kind::Enum, NAME),
    Rule("enum_member_declaration", Kind::Field, NAME),
    Rule("property_declaration", Kind::Field, NAME),
    Rule("variable_declarator", Kind::Field, NAME),
    Rule("namespace_declaration", Kind::Module, NAME),
];
const RUBY: &[Rule] = &[
    Rule("method", Kind::Function, NAME),
    Rule("singleton_method", Kind::Function, NAME),
    Rule("class", Kind::Class, NAME),
    Rule("module", Kind::Module, NAME),
    Rule("assignment", Kind::Constant, Name::In("left")),
];
const PHP: &[Rule] = &[
    Rule("function_definition", Kind::Function, NAME),
    Rule("method_declaration", Kind::Function, NAME),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("interface_declaration", Kind::Trait, NAME),
    Rule("trait_declaration", Kind::Trait, NAME),
    Rule("enum_declaration", Kind::Enum, NAME),
    Rule("enum_case", Kind::Field, NAME),
    Rule("const_element", Kind::Field, Name::First),
    Rule("property_element", Kind::Field, NAME),
    Rule("namespace_definition", Kind::Module, NAME),
];
const JSON: &[Rule] = &[Rule("pair", Kind::Key, Name::In("key"))];
const YAML: &[Rule] =
    &[Rule("block_mapping_pair", Kind::Key, Name::In("key")), Rule("flow_pair", Kind::Key, Name::In("key"))];
const TOML: &[Rule] = &[
    Rule("pair", Kind::Key, Name::First),
    Rule("table", Kind::Table, Name::First),
    Rule("table_array_element", Kind::Rule, Name::First),
];
const HTML: &[Rule] = &[Rule("element", Kind::Element, Name::Id)];
const CSS: &[Rule] = &[Rule("rule_set", Kind::Rule, Name::First)];
const BASH: &[Rule] = &[Rule("function_definition", Kind::Function, NAME)];
const LUA: &[Rule] = &[Rule("function_declaration", Kind::Function, NAME)];
const ZIG: &[Rule] =
    &[Rule("function_declaration", Kind::Function, NAME), Rule("variable_declaration", Kind::Constant, Name::First)];
const PROTOBUF: &[Rule] = &[
    Rule("message", Kind::Struct, Name::First),
    Rule("enum", Kind::Enum, Name::First),
    Rule("enum_field", Kind::Field, Name::First),
    Rule("service", Kind::Class, Name::First),
    Rule("rpc", Kind::Function, Name::First),
];
const HCL: &[Rule] = &[Rule("attribute", Kind::Key, Name::First)];
/// Functions may have one name here if their parameters differ, which their nodes do not show in a field.
const KOTLIN: &[Rule] = &[
    Rule("function_declaration", Kind::Macro, NAME),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("object_declaration", Kind::Class, NAME),
    Rule("enum_entry", Kind::Field, Name::First),
    Rule("type_alias", Kind::Type, Name::In("type")),
];
/// The same; an extension has the name of its class.
const SWIFT: &[Rule] = &[
    Rule("function_declaration", Kind::Macro, NAME),
    Rule("protocol_function_declaration", Kind::Signature, NAME),
    Rule("class_declaration", Kind::Trait, NAME),
    Rule("protocol_declaration", Kind::Trait, NAME),
];
/// The same; an object has the name of its class.
const SCALA: &[Rule] = &[
    Rule("function_definition", Kind::Macro, NAME),
    Rule("function_declaration", Kind::Signature, NAME),
    Rule("class_definition", Kind::Class, NAME),
    Rule("object_definition", Kind::Module, NAME),
    Rule("trait_definition", Kind::Trait, NAME),
];
/// The signature stands for the name, which lies deeper in it.
const DART: &[Rule] = &[
    Rule("function_declaration", Kind::Function, Name::First),
    Rule("method_declaration", Kind::Function, Name::First),
    Rule("class_declaration", Kind::Class, NAME),
    Rule("mixin_declaration", Kind::Class, NAME),
    Rule("enum_declaration", Kind::Enum, NAME),
    Rule("enum_entry", Kind::Field, NAME),
];
/// Functions consist of several equations.
const HASKELL: &[Rule] =
    &[Rule("data_type", Kind::Struct, NAME), Rule("class", Kind::Trait, NAME), Rule("type_synonym", Kind::Type, NAME)];

/// The nodes of a language that declare something.
pub(crate) fn rules(language: Language) -> &'static [Rule] {
    match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript | Language::TypeScript | Language::Tsx => SCRIPT,
        Language::Go => GO,
        Language::Java => JAVA,
        Language::C | Language::Cpp => C,
        Language::CSharp => CSHARP,
        Language::Ruby => RUBY,
        Language::Php => PHP,
        Language::Json => JSON,
        Language::Yaml => YAML,
        Language::Toml => TOML,
        Language::Html => HTML,
        Language::Css => CSS,
        Language::Bash => BASH,
        Language::Lua => LUA,
        Language::Zig => ZIG,
        Language::Protobuf => PROTOBUF,
        Language::Hcl => HCL,
        Language::Vue => HTML,
        Language::Kotlin => KOTLIN,
        Language::Swift => SWIFT,
        Language::Scala => SCALA,
        Language::Dart => DART,
        Language::Haskell => HASKELL,
        // Only their syntax is checked: declarations are calls or statements there, or there are none.
        Language::Elixir | Language::Dockerfile | Language::Svelte => &[],
    }
}

/// Whether a node wraps one declaration and belongs to it.
pub(crate) fn is_wrapper(node: &str) -> bool {
    matches!(
        node,
        "decorated_definition"
            | "export_statement"
            | "ambient_declaration"
            | "template_declaration"
            | "expression_statement"
            | "lexical_declaration"
            | "const_declaration"
            | "var_declaration"
            | "var_spec_list"
            | "type_declaration"
    )
}

/// Whether a node directly above a declaration belongs to its head.
pub(crate) fn is_head(node: &str) -> bool {
    node.contains("comment") || matches!(node, "attribute_item" | "decorator" | "attribute_list")
}
