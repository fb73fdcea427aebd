import { isDeepStrictEqual } from 'node:util';
import { applyEdits, modify, parse as parseJsonc, type ParseError } from 'jsonc-parser';
import { parse as parseToml } from 'smol-toml';
import { parseDocument } from 'yaml';
import {
  type Format,
  indexOf,
  isObject,
  type Setting,
  type Step,
  withSettings,
} from '#server/contract/client-setup.ts';
import { setInToml } from '#server/cli/setup/edit-toml.ts';

/** Edits of settings files that keep everything else: other settings, comments and order. Pure. */

/** A file that can't be edited safely. The message says why, and has nothing of the file. */
export class UneditableFileError extends Error {}

/** Object members, and indices of lists. */
export type Keys = readonly (string | number)[];

/**
 * The text with these settings.
 * @throws {UneditableFileError} where it can't be parsed, or something else would change.
 */
export function editSettings(format: Format, text: string, settings: readonly Setting[]): string {
  const expected = withSettings(parseSettings(format, text), settings);
  const edited = settings.reduce(
    (whole, { path, value }) => setIn(format, whole, keysOf(parseSettings(format, whole), path), value),
    text,
  );
  // Cloned, since a parser's objects have no prototype, and those of `withSettings` have one.
  if (!isDeepStrictEqual(structuredClone(parseSettings(format, edited)), structuredClone(expected)))
    throw new UneditableFileError('it is written in a way that can’t be edited without changing more');
  return edited;
}

/**
 * The text without these settings: each has its value in `original` again, or is absent. Objects and lists
 * that are empty then, and weren't in `original`, are removed.
 * @throws {UneditableFileError} where one of the texts can't be parsed.
 */
export function withdrawSettings(
  format: Format,
  text: string,
  original: string,
  settings: readonly Setting[],
): string {
  const before = parseSettings(format, original);
  const withdrawn = settings.toReversed().reduce((whole, { path }) => {
    const now = parseSettings(format, whole);
    const keys = keysOf(now, path);
    if (valueAt(now, keys) === undefined) return whole;
    const value = valueAt(before, keysOf(before, path));
    return value === undefined ? removeIn(format, whole, keys, before) : setIn(format, whole, keys, value);
  }, text);
  parseSettings(format, withdrawn);
  return withdrawn;
}

/**
 * What a text says, as plain values; `{}` for one without content.
 * @throws {UneditableFileError} where it isn't an object of its format.
 */
export function parseSettings(format: Format, text: string): Record<string, unknown> {
  const value = text.trim() === '' ? {} : PARSERS[format](text);
  if (!isObject(value)) throw new UneditableFileError(`it isn’t valid ${format.toUpperCase()}`);
  return value;
}

/** Each gives undefined for an invalid text. */
const PARSERS: Readonly<Record<Format, (text: string) => unknown>> = {
  json(text) {
    const errors: ParseError[] = [];
    const value: unknown = parseJsonc(text, errors, { allowTrailingComma: true });
    return errors.length === 0 ? value : undefined;
  },
  toml(text) {
    try {
      return parseToml(text);
    } catch {
      return undefined;
    }
  },
  yaml(text) {
    const document = parseDocument(text);
    return document.errors.length === 0 ? ((document.toJS() as unknown) ?? {}) : undefined;
  },
};

const SETTERS: Readonly<Record<Format, (text: string, keys: Keys, value: unknown) => string>> = {
  json: setInJson,
  toml: setInToml,
  yaml: setInYaml,
};

/** @param value undefined removes. */
const setIn = (format: Format, text: string, keys: Keys, value: unknown): string =>
  SETTERS[format](text, keys, value);

/** Removes a value, then the containers around it that are empty and weren't there before. */
function removeIn(format: Format, text: string, keys: Keys, before: unknown): string {
  const removed = setIn(format, text, keys, undefined);
  const parent = keys.slice(0, -1);
  const rest = valueAt(parseSettings(format, removed), parent);
  const isEmpty = typeof rest === 'object' && rest !== null && Object.keys(rest).length === 0;
  return parent.length > 0 && isEmpty && valueAt(before, parent) === undefined
    ? removeIn(format, removed, parent, before)
    : removed;
}

function setInJson(text: string, keys: Keys, value: unknown): string {
  const whole = text.trim() === '' ? '{}\n' : text;
  const indent = /^([ \t]+)\S/m.exec(whole)?.[1] ?? '  ';
  const formattingOptions = {
    insertSpaces: !indent.startsWith('\t'),
    tabSize: indent.length,
    eol: whole.includes('\r\n') ? '\r\n' : '\n',
  };
  const parent = valueAt(parseSettings('json', whole), keys.slice(0, -1));
  const isAppended =
    typeof keys.at(-1) === 'number' && keys.at(-1) === (Array.isArray(parent) ? parent.length : 0);
  const path = isAppended ? [...keys.slice(0, -1), -1] : [...keys];
  return applyEdits(whole, modify(whole, path, value, { formattingOptions }));
}

function setInYaml(text: string, keys: Keys, value: unknown): string {
  const document = parseDocument(text);
  if (value === undefined) document.deleteIn(keys);
  else document.setIn(keys, document.createNode(value));
  return document.toString({ lineWidth: 0 });
}

/** The keys of a path in parsed settings; a new element of a list is behind its last one. */
function keysOf(root: unknown, path: readonly Step[]): Keys {
  return path.reduce<(string | number)[]>((keys, step) => {
    if (typeof step === 'string') return [...keys, step];
    const list = valueAt(root, keys);
    return [...keys, indexOf(Array.isArray(list) ? list : [], step)];
  }, []);
}

const valueAt = (root: unknown, keys: Keys): unknown =>
  keys.reduce<unknown>((value, key) => {
    if (Array.isArray(value)) return (value as unknown[])[Number(key)];
    return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }, root);
