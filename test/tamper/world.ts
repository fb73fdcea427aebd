import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { archive } from '#db/archive/archive.ts';
import type { Store } from '#db/postgres/connect.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { migrate } from '#db/schema/migrate.ts';
import { streamOf } from '#db/events/streams.ts';
import { parseVerifierKey, type Verifier } from '#db/tlog/note.ts';
import { readCheckpointFile, readVerifierKeys } from '#db/tlog/publish-directory.ts';
import { addSigningKey } from '#db/tlog/signing-key.ts';
import type { Random } from '../chaos/random.ts';
import { reservedName } from './reserved-names.ts';
import { anyControlEvent } from '../support/log/arbitrary-event.ts';
import { anyCallEvent, anyCorrection } from '../support/log/arbitrary-request.ts';
import { appendFirstControls, appendFirstRequests } from '../support/audit/first-events.ts';
import {
  accepted,
  connectAs,
  extended,
  openWriter,
  settled,
  type Writer,
} from '../support/log/log-writer.ts';
import { publishNow } from '../support/audit/publishing.ts';

/** An empty database, and a superuser in it. */
export type Ground = { store: Store; superuser: () => Promise<Client> };

/** A checkpoint as an auditor may have kept it. */
export type Kept = { size: number; note: string };

/** A log with every kind of content, and an auditor's evidence. */
export type World = AsyncDisposable & {
  superuser: Client;
  /** The newest event, and the first one that is not in the archive. */
  head: number;
  first: number;
  /** The size of the newest checkpoint. Later events are not covered yet. */
  covered: number;
  directory: string;
  archive: string;
  /** The key that signed the first checkpoint, which is all that an auditor trusts. */
  key: Verifier;
  checkpoints: Kept[];
};

/** Small, so that a log of some thousand events has a few. */
const PARTITION_POSITIONS = 500;
/** Events between two checkpoints, so that some end within a tile and some with one. */
const EVENTS_PER_CHECKPOINT = 256;
const UNCOVERED_EVENTS = 40;
const ACCOUNTS = 5;
const WRITERS = 3;
const BATCH_EVENTS_MAX = 12;

/** Fills an empty database with a log of so many events and an archive of its first partition. */
export async function openWorld(
  ground: Ground,
  events: number,
  random: Random,
  place: string,
): Promise<World> {
  const { store } = ground;
  await migrate(store);
  await appendFirstEvents(store);
  const superuser = await ground.superuser();
  await cutIntoPartitions(superuser);

  const publishing = { keyFile: path.join(place, 'signing-key'), directory: path.join(place, 'published') };
  const checkpoints: Kept[] = [];
  const publish = async (): Promise<void> => {
    const checkpoint = await publishNow(store, publishing);
    if (checkpoint)
      checkpoints.push({
        size: checkpoint.size,
        note: (await readCheckpointFile(publishing.directory)) as string,
      });
  };
  const writers: Writer[] = [];
  for (let each = 0; each < WRITERS; each++) writers.push(await openWriter(store));
  const calls = new Calls(random);
  let head = 0;
  const appendUpTo = async (position: number): Promise<void> => {
    while (head < position) {
      const writer = writers[random.below(WRITERS)] as Writer;
      head = await calls.appendSome(writer);
    }
  };
  for (
    let upTo = EVENTS_PER_CHECKPOINT;
    upTo < events;
    upTo += EVENTS_PER_CHECKPOINT - 20 + random.below(40)
  ) {
    await appendUpTo(upTo);
    // Midway another key takes the first one's place.
    if (checkpoints.length === 3) addSigningKey(publishing.keyFile);
    await publish();
  }
  const [line] = await readVerifierKeys(publishing.directory);
  const covered = (checkpoints.at(-1) as Kept).size;

  // Projections and open requests delay archiving, so both are marked as done.
  await superuser.query('update daybook.projection set position = daybook.head(0::smallint)');
  await superuser.query('update daybook.instance set open_from = daybook.head(0::smallint) + 1');
  const archiveDirectory = path.join(place, 'archive');
  await mkdir(archiveDirectory);
  const full = Math.floor(covered / PARTITION_POSITIONS);
  await archive({
    connect: () => connectAs(store, 'owner'),
    directory: archiveDirectory,
    keep: full - 1,
    drop: true,
  });
  await appendUpTo(head + UNCOVERED_EVENTS);
  for (const writer of writers) {
    await retireInstance(writer.client, writer.instance);
    await writer[Symbol.asyncDispose]();
  }
  const { rows } = await superuser.query<{ first: number; head: number }>(
    'select daybook.first_position()::float8 as first, daybook.head(0::smallint)::float8 as head',
  );
  return {
    superuser,
    ...(rows[0] as { first: number; head: number }),
    covered,
    directory: publishing.directory,
    archive: archiveDirectory,
    key: parseVerifierKey(line as string),
    checkpoints,
    [Symbol.asyncDispose]: () => superuser.end(),
  };
}

/** Events with their lines byte by byte. */
async function appendFirstEvents(store: Store): Promise<void> {
  const client = await connectAs(store, 'relay');
  const instance = await registerInstance(client, 'first');
  await appendFirstRequests(client, instance, 1);
  await appendFirstControls(client, instance, 2, 1);
  await appendFirstRequests(client, instance, 3);
  await retireInstance(client, instance);
  await client.end();
}

/** Partitions that a migration makes are too large to be filled. */
async function cutIntoPartitions(superuser: Client): Promise<void> {
  await superuser.query(
    `alter table daybook.log detach partition daybook.log_000000; alter table daybook.log_000000 rename to
      taken_out`,
  );
  await superuser.query(
    `alter table daybook.log detach partition daybook.log_000001; drop table daybook.log_000001; delete
      from daybook.log_partition`,
  );
  await superuser.query(`update daybook.install set partition_size = ${PARTITION_POSITIONS}`);
  await superuser.query('set role daybook_owner; select daybook.create_partitions(12); reset role');
  await superuser.query(
    'insert into daybook.log select * from daybook.taken_out; drop table daybook.taken_out',
  );
}

/**
 * Requests of several accounts with their outcomes, and changes to accounts, keys and plans, each as the
 * next of its own stream.
 */
class Calls {
  readonly #random: Random;
  readonly #versions = new Map<string, number>();
  readonly #names = new Set<string>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** @returns the position of the last event. */
  appendSome(writer: Writer): Promise<number> {
    switch (this.#random.below(12)) {
      case 0:
      case 1:
        return writer.control(this.#controls(1 + this.#random.below(3)));
      case 2:
        return writer.correct(this.#corrections(1 + this.#random.below(3)));
      default:
        return writer.append(this.#requests(1 + this.#random.below(BATCH_EVENTS_MAX)));
    }
  }

  #requests(count: number): Parameters<Writer['append']>[0][number][] {
    const account = `Account${this.#random.below(ACCOUNTS)}`;
    const begun = accepted({
      account,
      key: `Key0000${this.#random.below(9)}`,
      hold_cost_nanousd: 700,
      sse: this.#random.below(2) === 0,
    });
    const known = [
      begun,
      extended(begun),
      settled(begun, {
        cost_nanousd: 1 + this.#random.below(9_999),
        output_tokens: this.#random.below(500),
      }),
    ];
    // Others have every value that the vocabulary allows, refusals among them.
    return [
      ...known,
      ...fc.sample(anyCallEvent, { numRuns: count, seed: this.#random.below(2 ** 31) }),
    ].slice(0, Math.max(count, 2));
  }

  #corrections(count: number): Parameters<Writer['correct']>[0] {
    return fc.sample(anyCorrection, { numRuns: count, seed: this.#random.below(2 ** 31) });
  }

  #controls(count: number): Parameters<Writer['control']>[0] {
    const events = fc.sample(anyControlEvent, { numRuns: 4 * count, seed: this.#random.below(2 ** 31) });
    return events
      .filter((event) => !event.type.startsWith('log.'))
      .slice(0, count)
      .map((event: ControlEvent) => {
        const stream = streamOf(event);
        const version = (this.#versions.get(stream) ?? 0) + 1;
        this.#versions.set(stream, version);
        const name = reservedName(event);
        if (name === null || this.#names.has(name)) return { event, version };
        this.#names.add(name);
        return { event, version, claim: name };
      });
  }
}
