import type { CallTerms } from '#server/backtest/candidate.ts';
import { CallHistory, type PastCalls } from '#server/limits/call-history.ts';

/**
 * The past calls of each key to each model, as each instance had learned them, and their average usage for
 * calls of which the log has none. Pure.
 */

/** Instances whose history is kept: those that run at the same time. The oldest are forgotten. */
const INSTANCES_MAX = 64;
/** Pairs of key and model, and models, whose average usage is kept. */
const AVERAGES_MAX = 100_000;

/** The usage of an average call. */
export type MeanUsage = { input: number; output: number; cost: number };

class Average {
  #calls = 0;
  #input = 0;
  #output = 0;
  #cost = 0;

  add(input: number, output: number, cost: number): void {
    this.#calls++;
    this.#input += input;
    this.#output += output;
    this.#cost += cost;
  }

  /** Null: there was no call. */
  get mean(): MeanUsage | null {
    if (this.#calls === 0) return null;
    return {
      input: Math.round(this.#input / this.#calls),
      output: Math.round(this.#output / this.#calls),
      cost: Math.floor(this.#cost / this.#calls),
    };
  }
}

const NOTHING: MeanUsage = { input: 0, output: 0, cost: 0 };

/**
 * What one instance knew. `diverged` has the models whose calls were not all admitted again, `pasts` the
 * entries of `calls` with their averages.
 */
type OfInstance = { calls: CallHistory; diverged: Set<string>; pasts: WeakMap<PastCalls, PastOf> };

/** The calls before a call: of its key to its model. */
export class PastOf {
  readonly #of: OfInstance;
  readonly #calls: PastCalls;
  readonly #averages: readonly Average[];
  readonly #model: string;

  constructor(of: OfInstance, calls: PastCalls, averages: readonly Average[], model: string) {
    this.#of = of;
    this.#calls = calls;
    this.#averages = averages;
    this.#model = model;
  }

  /** The expected tokens of the reply. */
  get replyTokens(): number {
    return this.#calls.replyTokens;
  }

  /** Whether the instance has learned other calls than the recorded ones. */
  get isDiverged(): boolean {
    return this.#of.diverged.has(this.#model);
  }

  /** The call isn't admitted again, and so isn't learned. */
  diverges(): void {
    this.#of.diverged.add(this.#model);
  }

  /** Learns a completed call. */
  learn(input: number, output: number, cost: number): void {
    this.#calls.learnReply(output);
    for (const average of this.#averages) average.add(input, output, cost);
  }

  /** The average usage of the key's calls to the model, or else of all calls to it. */
  get mean(): MeanUsage {
    for (const average of this.#averages) if (average.mean !== null) return average.mean;
    return NOTHING;
  }
}

export class History {
  readonly #instances = new Map<number, OfInstance>();
  readonly #averages = new Map<string, Average>();

  of(instance: number, key: string, { model, isOther, pair }: CallTerms): PastOf {
    let of = this.#instances.get(instance);
    if (of === undefined) {
      of = { calls: new CallHistory(), diverged: new Set(), pasts: new WeakMap() };
      this.#instances.set(instance, of);
      if (this.#instances.size > INSTANCES_MAX)
        this.#instances.delete(this.#instances.keys().next().value as number);
    }
    const calls = of.calls.of(key, model, pair);
    let past = of.pasts.get(calls);
    if (past === undefined) {
      const averages = [pair, model].flatMap((name) => this.#averageOf(name) ?? []);
      past = new PastOf(of, calls, averages, model);
      of.pasts.set(calls, past);
    }
    if (isOther) past.diverges();
    return past;
  }

  #averageOf(name: string): Average | null {
    const known = this.#averages.get(name);
    if (known !== undefined) return known;
    if (this.#averages.size >= AVERAGES_MAX) return null;
    const average = new Average();
    this.#averages.set(name, average);
    return average;
  }
}
