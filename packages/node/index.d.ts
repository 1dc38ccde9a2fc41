/** Merges a model's code edit into the text of a file, or says why not. Nothing is read or written: text comes in, text goes out. */

/** What an update is written in. */
export type Format =
  | "lazy"
  | "fragment"
  | "whole_file"
  | "search_replace"
  | "string_replace"
  | "unified_diff"
  | "v4a"
  | "text_editor"
  | "targets";

/** The kind of a refusal. */
export type Code =
  | "no_anchor"
  | "ambiguous_location"
  | "ambiguous_deletion"
  | "overlapping_edits"
  | "syntax_regression"
  | "marker_unresolved"
  | "not_an_edit"
  | "too_large"
  | "invalid_format"
  | "not_text";

/** Lines of the old text and the lines that replace them, counted from 1; a count may be 0. */
export interface Edit {
  readonly old_start: number;
  readonly old_count: number;
  readonly new_start: number;
  readonly new_count: number;
}

/** Why an update was not merged: for the model that wrote it, to try again. */
export interface Refused {
  readonly code: Code;
  readonly message: string;
  /** Lines in question, first and last, counted from 1. */
  readonly candidates: ReadonlyArray<readonly [first: number, last: number]>;
  readonly hint: string;
}

/** The whole merged text, or a refusal: one of `text` and `refused` is null. */
export type Outcome =
  | {
      readonly text: string;
      readonly refused: null;
      /** False if the text already is as the update wants it. */
      readonly changed: boolean;
      readonly edits: readonly Edit[];
    }
  | { readonly text: null; readonly refused: Refused; readonly changed: false; readonly edits: readonly [] };

/**
 * Merges an update into the text of a file.
 *
 * The path is only looked at for the language. Without a format the update's own text tells which it is.
 *
 * @throws {TypeError} if an argument is no string, has half of a surrogate pair, or is no format
 * @throws {Error} if the engine cannot be loaded, or has ended by a fault of its own; the next call starts it anew
 */
export function edit(path: string, text: string, update: string, format?: Format | null): Promise<Outcome>;

/**
 * Loads the engine. The first `edit` does that too; call it to have that done before, or to load it from elsewhere than the file
 * beside this module: an address, a response, its bytes, or the compiled module.
 */
export function init(source?: URL | Response | Promise<Response> | ArrayBuffer | ArrayBufferView | CompiledModule): Promise<void>;

/** `WebAssembly.Module`, where the program's types know it. */
type CompiledModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Module } } } ? Module : never;
