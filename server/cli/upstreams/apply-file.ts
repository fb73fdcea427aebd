import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { isMap, isNode, LineCounter, parseDocument, type Document } from 'yaml';
import { z } from 'zod';
import { PlanTerms } from '#db/events/events.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { PriceFault, PriceInFile, priceFromFile } from '#server/cli/prices/price-file.ts';
import { readSecretFile } from '#server/cli/input.ts';
import { describeIssue } from '#server/cli/accounts/terms-file.ts';
import type { Section, DesiredState, DesiredUpstream } from '#server/decide/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { checkBaseUrl } from '#server/upstreams/addresses.ts';

/** The file of `daybook apply`: YAML, which includes JSON. */

/** Enough for some thousand prices. */
const FILE_BYTES_MAX = 1024 * 1024;

/** A reference to a secret. The file never contains secrets, since it is kept in repositories. */
const SECRET_REFERENCE = /^(?:\$\{([A-Za-z_]\w*)\}|file:(.+))$/;

const Named = z.record(z.string(), z.looseObject({}));
const Sections = z.strictObject({
  upstreams: Named.optional(),
  models: Named.optional(),
  plans: Named.optional(),
  prices: Named.optional(),
});
const Credentials = z.array(z.strictObject({ label: z.string(), secret: z.string() }));
type Path = readonly PropertyKey[];
export type AppliedFile = { wanted: DesiredState; placeOf: (section: Section, name: string) => string };

/**
 * Reads the desired state from a file, with the secrets that it refers to.
 * @param env the variables that `${NAME}` refers to.
 * @throws {DecisionError} with one line that names the invalid line. The message never quotes its content.
 */
export function readApplyFile(file: string, env: NodeJS.ProcessEnv): AppliedFile {
  return new ApplyFile(file, env).read();
}

class ApplyFile {
  readonly #name: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #lines = new LineCounter();
  readonly #document: Document;

  constructor(file: string, env: NodeJS.ProcessEnv) {
    this.#name = basename(file);
    this.#env = env;
    // Messages don't quote the file, since it could contain a secret by mistake.
    this.#document = parseDocument(readText(file), { lineCounter: this.#lines, prettyErrors: false });
    const [error] = this.#document.errors;
    if (error)
      throw new DecisionError(
        'invalid',
        [
          `${this.#name}:${this.#lines.linePos(error.pos[0]).line}: is not YAML`,
          `(${error.code.toLowerCase().replaceAll('_', ' ')}).`,
        ].join(' '),
      );
  }

  read(): AppliedFile {
    const sections = this.#check(Sections, this.#value() ?? {}, []);
    const wanted: DesiredState = {};
    if (sections.upstreams)
      wanted.upstreams = this.#each('upstreams', sections.upstreams, (value, path) =>
        this.#upstream(value, path),
      );
    if (sections.models)
      wanted.models = this.#each('models', sections.models, (value, path) =>
        this.#check(ModelTerms.options['alias_of' in value ? 1 : 0], value, path),
      );
    if (sections.plans)
      wanted.plans = this.#each('plans', sections.plans, (value, path) =>
        this.#check(PlanTerms, value, path),
      );
    if (sections.prices)
      wanted.prices = this.#each('prices', sections.prices, (value, path) => this.#price(value, path));
    return { wanted, placeOf: (section, name) => this.#place([section, name]) };
  }

  #value(): unknown {
    try {
      return this.#document.toJS();
    } catch {
      throw new DecisionError('invalid', `${this.#name}: has too many aliases.`);
    }
  }

  #each<T>(
    section: Section,
    values: Record<string, Record<string, unknown>>,
    read: (value: Record<string, unknown>, path: Path) => T,
  ): Map<string, T> {
    return new Map(Object.entries(values).map(([name, value]) => [name, read(value, [section, name])]));
  }

  #upstream({ credentials, ...rest }: Record<string, unknown>, path: Path): DesiredUpstream {
    const terms = this.#check(UpstreamTerms, rest, path);
    const fault = terms.base_url === undefined ? null : checkBaseUrl(terms.base_url, terms.network);
    if (fault !== null) throw this.#fault([...path, 'base_url'], fault);
    return {
      terms,
      saysPaused: 'paused' in rest,
      credentials:
        credentials === undefined ? null : this.#credentials(credentials, [...path, 'credentials']),
    };
  }

  #credentials(value: unknown, path: Path): Map<string, { secret: string }> {
    const named = new Map<string, { secret: string }>();
    for (const [index, { label, secret }] of this.#check(Credentials, value, path).entries()) {
      const text = label.trim();
      if (named.has(text)) throw this.#fault([...path, index], `The label "${text}" is used twice.`);
      named.set(text, { secret: this.#secret(secret, [...path, index, 'secret']) });
    }
    return named;
  }

  #secret(reference: string, path: Path): string {
    const [, variable, file] = SECRET_REFERENCE.exec(reference) ?? [];
    if (file !== undefined) {
      try {
        return readSecretFile(file).replace(/\r?\n$/, '');
      } catch (error) {
        throw this.#fault(path, (error as Error).message);
      }
    }
    if (variable === undefined)
      throw this.#fault(
        path,
        'The file must not contain a secret. Use ${NAME} for an environment variable, or file:/path/to/file.',
      );
    const secret = this.#env[variable];
    if (secret === undefined || secret === '')
      throw this.#fault(path, `The environment variable ${variable} is not set.`);
    return secret;
  }

  #price(value: unknown, path: Path): PriceTerms {
    try {
      return priceFromFile(this.#check(PriceInFile, value, path));
    } catch (error) {
      throw error instanceof PriceFault ? this.#fault([...path, ...error.path], error.message) : error;
    }
  }

  #check<T extends z.ZodType>(schema: T, value: unknown, path: Path): z.infer<T> {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    if (!issue) throw this.#fault(path, 'Is not usable.');
    const within = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] as string] : issue.path;
    throw this.#fault([...path, ...within], `${describeIssue(issue)}.`);
  }

  #fault(path: Path, problem: string): DecisionError {
    return new DecisionError('invalid', `${this.#place(path)}${problem}`);
  }

  /** The file and line of a value; if the value is absent, those of its nearest parent. */
  #place(path: Path): string {
    for (let length = path.length; length > 0; length--) {
      const parent =
        length === 1 ? this.#document.contents : this.#document.getIn(path.slice(0, length - 1), true);
      const last = path[length - 1];
      const pair = isMap(parent)
        ? parent.items.find(({ key }) => isNode(key) && String(key) === String(last))
        : undefined;
      const node = pair?.key ?? this.#document.getIn(path.slice(0, length), true);
      if (isNode(node) && node.range) return `${this.#name}:${this.#lines.linePos(node.range[0]).line}: `;
    }
    return `${this.#name}: `;
  }
}

function readText(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  if (bytes.length > FILE_BYTES_MAX)
    throw new DecisionError('invalid', `${file} is longer than ${FILE_BYTES_MAX} bytes.`);
  return bytes.toString();
}
