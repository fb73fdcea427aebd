import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseAst } from 'vitest/node';

/** The project's own directory. */
export const ROOT = path.resolve(import.meta.dirname, '../..');

/** One import, export-from or `import()` with a literal address, type-only ones too. */
export type Import = { specifier: string; typeOnly: boolean };

/** One file as the rules see it. Paths are relative to the project, with slashes. */
export type File = {
  path: string;
  text: string;
  lines: number;
  imports: Import[];
  /** Whether it only re-exports symbols of other files. */
  onlyReexports: boolean;
  usesConsole: boolean;
};

/** A syntax-tree node, as far as the rules read it. */
type Node = { type: string } & Record<string, unknown>;

const isGenerated = (directory: string): boolean => directory === 'dist' || directory === 'node_modules';

/** Reads every file of these top-level folders. */
export function readFolders(folders: readonly string[]): File[] {
  return folders.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      // Built and installed files are not sources.
      .filter((entry) => !path.relative(ROOT, entry.parentPath).split(path.sep).some(isGenerated))
      .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, '/'))
      .map((name) => describeFile(name, readFileSync(path.join(ROOT, name), 'utf8'))),
  );
}

/** Describes one file; only TypeScript is parsed. */
export function describeFile(name: string, text: string): File {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  const file: File = { path: name, text, lines, imports: [], onlyReexports: false, usesConsole: false };
  if (!/\.tsx?$/.test(name)) return file;
  const program = parseAst(text, { lang: name.endsWith('x') ? 'tsx' : 'ts' }) as unknown as Node & {
    body: Node[];
  };
  file.onlyReexports =
    program.body.length > 0 && program.body.every(isReexport) && program.body.some(isExport);
  walk(program, (node) => {
    const specifier = specifierIn(node);
    if (specifier !== null) file.imports.push({ specifier, typeOnly: isTypeOnly(node) });
    if (isConsole(node)) file.usesConsole = true;
  });
  return file;
}

/** The file that an import refers to, or null for a package or a Node module. */
export function targetOf(specifier: string, importer: string): string | null {
  if (specifier.startsWith('#')) return specifier.slice(1);
  if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(importer), specifier);
  return null;
}

/** The package that an import refers to, or null for a file or a Node module. */
export function packageOf(specifier: string): string | null {
  if (/^[.#]|^node:/.test(specifier)) return null;
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) for (const each of value) walk(each, visit);
  else if (typeof value === 'object' && value !== null) {
    if ('type' in value && typeof value.type === 'string') visit(value as Node);
    for (const each of Object.values(value)) walk(each, visit);
  }
}

const IMPORTING = new Set([
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
]);

function specifierIn(node: Node): string | null {
  const address = IMPORTING.has(node.type) ? (node['source'] as Node | null)?.['value'] : null;
  return typeof address === 'string' ? address : null;
}

function isTypeOnly(node: Node): boolean {
  return node.type === 'TSImportType' || node['importKind'] === 'type' || node['exportKind'] === 'type';
}

/** The global `console`, not a member of that name. */
function isConsole(node: Node): boolean {
  return node.type === 'MemberExpression' && (node['object'] as Node)['name'] === 'console';
}

function isExport({ type }: Node): boolean {
  return type === 'ExportAllDeclaration' || type === 'ExportNamedDeclaration';
}

/** An import, an `export … from`, or an `export { … }` without a declaration of its own. */
function isReexport(node: Node): boolean {
  return node.type === 'ImportDeclaration' || (isExport(node) && (node['declaration'] ?? null) === null);
}
