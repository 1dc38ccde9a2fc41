//! Every keyword kept and broken, where a violation is, and which schemas are refused.

use super::*;
use serde_json::json;

fn problem(schema: Value, value: &Value) -> Option<String> {
    let schema = JsonSchema::new(schema).expect("all of it is checked");
    schema.check(value).err().map(|violation| violation.to_string())
}

#[test]
fn every_keyword_is_kept_and_broken() {
    let cases = [
        (json!({"type": "integer"}), json!(1.0), json!(1.5), "type"),
        (json!({"type": ["string", "null"]}), json!(null), json!(1), "type"),
        (json!({"const": {"a": [1]}}), json!({"a": [1.0]}), json!({"a": [2]}), "const"),
        (json!({"enum": ["a", 1]}), json!(1.0), json!("b"), "enum"),
        (json!({"minimum": 1}), json!(1), json!(0.9), "minimum"),
        (json!({"maximum": 1}), json!(1), json!(1.1), "maximum"),
        (json!({"exclusiveMinimum": 1}), json!(1.1), json!(1), "exclusiveMinimum"),
        (json!({"exclusiveMaximum": 1}), json!(0.9), json!(1), "exclusiveMaximum"),
        (json!({"multipleOf": 0.01}), json!(19.99), json!(19.995), "multipleOf"),
        (json!({"minLength": 2}), json!("äö"), json!("ä"), "minLength"),
        (json!({"maxLength": 1}), json!("ä"), json!("äö"), "maxLength"),
        (json!({"minItems": 1}), json!([1]), json!([]), "minItems"),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "maxItems"),
        (json!({"minProperties": 1}), json!({"a": 1}), json!({}), "minProperties"),
        (json!({"maxProperties": 1}), json!({"a": 1}), json!({"a": 1, "b": 1}), "maxProperties"),
        (json!({"required": ["a"]}), json!({"a": null}), json!({"b": 1}), "required"),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(2), json!(3), "maximum"),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), json!("a"), json!(4), "anyOf"),
        (json!({"oneOf": [{"minimum": 1}, {"minimum": 5}]}), json!(2), json!(6), "oneOf"),
        (json!({"$defs": {"n": {"minimum": 1}}, "$ref": "#/$defs/n"}), json!(1), json!(0), "minimum"),
    ];
    for (schema, valid, invalid, keyword) in cases {
        assert_eq!(problem(schema.clone(), &valid), None, "{schema} {valid}");
        let expected = format!("the value breaks `{keyword}`");
        assert_eq!(problem(schema.clone(), &invalid), Some(expected), "{schema} {invalid}");
    }
}

#[test]
fn a_violation_says_where_it_is() {
    let item = json!({"type": "object", "properties": {"a/b": {"type": "string"}}, "additionalProperties": false});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}});
    assert_eq!(
        problem(schema.clone(), &json!({"items": [{}, {"a/b": 1}]})).as_deref(),
        Some("/items/1/a~1b breaks `type`")
    );
    assert_eq!(
        problem(schema, &json!({"items": [{"c": 1}]})).as_deref(),
        Some("/items/0/c breaks `additionalProperties`")
    );
    assert_eq!(
        problem(json!({"additionalProperties": {"type": "null"}}), &json!({"x": 1})).as_deref(),
        Some("/x breaks `type`")
    );
    assert_eq!(problem(json!({"properties": {"x": false}}), &json!({"x": 1})).as_deref(), Some("/x breaks `false`"));
}

#[test]
fn a_schema_that_is_not_wholly_checked_is_refused_wherever_the_keyword_stands() {
    let refused = |schema: Value| JsonSchema::new(schema).expect_err("not checked");
    let expected = "the keyword `pattern` is not checked here; leave it out";
    assert_eq!(refused(json!({"pattern": "a"})), expected);
    assert_eq!(refused(json!({"properties": {"x": {"anyOf": [{"items": {"pattern": "a"}}]}}})), expected);
    assert_eq!(refused(json!({"$ref": "#/$defs/none"})), "`$ref` \"#/$defs/none\" leads to no part of the schema");
    assert_eq!(refused(json!({"type": "text"})), "\"text\" is no type of JSON Schema");
    assert_eq!(refused(json!(7)), "a schema is an object, `true` or `false`");
    JsonSchema::new(json!({"properties": {"pattern": {"type": "string"}}})).expect("a name is no keyword");
}

#[test]
fn references_without_end_are_a_violation_and_no_overflow() {
    assert_eq!(problem(json!({"$ref": "#"}), &json!(1)).as_deref(), Some("the value breaks `$ref`"));
    let list = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
    assert_eq!(problem(list, &json!({"next": {"next": {"next": null}}})), None);
}
