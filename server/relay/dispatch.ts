import type { Upstream } from '#server/relay/upstream.ts';

/** Chooses the upstream for a model. An exact name goes before any pattern, then order decides. */
export class ModelTable {
  readonly #exact = new Map<string, Upstream>();
  readonly #patterns: { parts: string[]; upstream: Upstream }[] = [];

  constructor(upstreams: readonly Upstream[]) {
    for (const upstream of upstreams) {
      for (const model of upstream.models) {
        if (model.includes('*')) this.#patterns.push({ parts: model.split('*'), upstream });
        else if (!this.#exact.has(model)) this.#exact.set(model, upstream);
      }
    }
  }

  /** The upstream that serves this model, or undefined when none does. */
  find(model: string): Upstream | undefined {
    return this.#exact.get(model) ?? this.#patterns.find(({ parts }) => matches(parts, model))?.upstream;
  }

  /** The models that are configured by name. */
  get names(): string[] {
    return [...this.#exact.keys()];
  }
}

/**
 * Whether a name is the pattern's literal parts with anything between them. Taking each part at
 * its first place is enough, so no pattern can make a long name expensive, as a regular expression
 * with several wildcards could.
 */
export function matches(parts: readonly string[], name: string): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= name.length - last.length;
}
