import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { QUEUED_CHARACTERS_MAX, WRITE_BYTES_MAX, WRITE_RETRY_MAX_MS } from '#db/diagnostics/bounds.ts';
import { DroppableOutput, type OutputTarget } from '#db/diagnostics/droppable-output.ts';

type Write = { bytes: string; done: (error: NodeJS.ErrnoException | null, written: number) => void };

/** A target whose writes the test ends one by one. */
class ScriptedTarget implements OutputTarget {
  readonly mayBlock = false;
  readonly writes: Write[] = [];
  text = '';
  fault: string | null = null;
  attempts = 0;

  write(bytes: Buffer, done: Write['done']): void {
    this.attempts++;
    if (this.fault !== null) return done(Object.assign(new Error('no'), { code: this.fault }), 0);
    this.writes.push({ bytes: bytes.toString(), done });
  }
  writeSync(bytes: Buffer): number {
    if (this.fault !== null) throw Object.assign(new Error('no'), { code: this.fault });
    this.text += bytes.toString();
    return bytes.length;
  }
  /** Ends the write under way, of which so many bytes were taken. */
  take(bytes = Infinity): void {
    const write = this.writes.shift() as Write;
    const taken = write.bytes.slice(0, bytes);
    this.text += taken;
    write.done(null, taken.length);
  }
  takeAll(): void {
    while (this.writes.length > 0) this.take();
  }
}

const line = (text: string): string => `${text.padEnd(99, '.')}\n`;
/** Lines that fit into the queue, beside one chunk that is under way. */
const LINES_MAX = Math.floor(QUEUED_CHARACTERS_MAX / 100);

describe('an output', () => {
  let target: ScriptedTarget;
  let output: DroppableOutput;
  beforeEach(() => {
    vi.useFakeTimers();
    target = new ScriptedTarget();
    output = new DroppableOutput(() => target);
  });
  afterEach(() => vi.useRealTimers());

  it('writes one chunk of whole lines at a time, in order', () => {
    const lines = Array.from({ length: 100 }, (_, index) => line(`line ${index}`));
    for (const each of lines) output.write(each);
    expect(target.writes).toHaveLength(1);
    const sizes: number[] = [];
    while (target.writes.length > 0) {
      sizes.push((target.writes[0] as Write).bytes.length);
      target.take();
    }
    expect(target.text).toBe(lines.join(''));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(WRITE_BYTES_MAX);
    expect(sizes.every((size) => size % 100 === 0)).toBe(true);
  });

  it('finishes a line of which a part was written', () => {
    output.write(line('first'));
    target.take(7);
    target.takeAll();
    expect(target.text).toBe(line('first'));
  });

  it.each(['EIO', 'ENOSPC', 'EPIPE', 'EAGAIN', 'EBADF'])(
    'keeps lines while it fails with %s, retries with a growing pause, and writes them when it is over',
    (code) => {
      target.fault = code;
      output.write(line('one'));
      output.write(line('two'));
      vi.advanceTimersByTime(60_000);
      expect(target.attempts).toBeLessThan(70);
      expect(output.status).toEqual({ dropped: 0, failure: code });
      target.fault = null;
      vi.advanceTimersByTime(WRITE_RETRY_MAX_MS);
      target.takeAll();
      expect(target.text).toBe(line('one') + line('two'));
      expect(output.status).toEqual({ dropped: 0, failure: null });
    },
  );

  it('drops what exceeds its queue, counts it, and says once how many lines are missing, and where', () => {
    target.fault = 'ENOSPC';
    for (let index = 0; index < LINES_MAX + 50; index++) output.write(line(`line ${index}`));
    const { dropped } = output.status;
    expect(dropped).toBeGreaterThanOrEqual(49);
    target.fault = null;
    vi.advanceTimersByTime(WRITE_RETRY_MAX_MS);
    target.takeAll();
    output.write(line('after'));
    target.takeAll();
    const written = target.text.split('\n').slice(0, -1);
    expect(written.filter((each) => each.startsWith('line'))).toHaveLength(LINES_MAX + 50 - dropped);
    expect(written.at(-2)).toBe(`${dropped} diagnostic lines dropped (ENOSPC)`);
    expect(written.at(-1)).toMatch(/^after/);
  });

  it('accepts lines again only when half of its queue is free, so that one report follows a loss', () => {
    for (let index = 0; index < 2 * LINES_MAX; index++) output.write(line(`line ${index}`));
    for (let count = 0; target.writes.length > 0; count++) {
      target.take();
      output.write(line(`more ${count}`));
      expect(count).toBeLessThan(10_000);
      if (count > 1_000) target.takeAll();
    }
    expect(target.text.match(/diagnostic lines dropped/g)).toHaveLength(1);
  });

  it('never throws, also where its target can not be opened', () => {
    const broken = new DroppableOutput(() => {
      throw Object.assign(new Error('no'), { code: 'ENXIO' });
    });
    broken.write(line('one'));
    broken.flushSync();
    expect(broken.status).toEqual({ dropped: 0, failure: 'ENXIO' });
  });

  it('writes the last lines at once where that takes no waiting', () => {
    target.fault = 'EAGAIN';
    output.write(line('last'));
    target.fault = null;
    output.flushSync();
    expect(target.text).toBe(line('last'));
  });

  it('is flushed when all is written, or when the time is over', async () => {
    output.write(line('one'));
    const flushed = vi.fn();
    const first = output.flush(1_000).then(flushed);
    expect(flushed).not.toHaveBeenCalled();
    target.takeAll();
    await first;
    target.fault = 'EIO';
    output.write(line('two'));
    const second = output.flush(1_000);
    vi.advanceTimersByTime(1_000);
    await second;
    expect(output.status.failure).toBe('EIO');
  });
});

const CHILD = `
  const { createLogger } = await import('#db/diagnostics/logger.ts');
  const { exitProcess, standardOutput } = await import('#db/diagnostics/process-output.ts');
  const log = createLogger('info');
  for (let index = 0; index < 20_000; index++) log.info({ index }, 'a diagnostic line of this test');
  let turns = 0;
  process.on('SIGTERM', () => exitProcess(0));
  setInterval(() => {
    // Its reader may take a while to stop, on a busy machine.
    if (turns > 2_000 || (standardOutput.status.failure === null && turns++ < 2_000)) return;
    turns = Infinity;
    process.send(standardOutput.status);
  }, 1);
`;

/** Runs a process that logs more than its queue holds, on an output, and ends it by SIGTERM. */
async function runOn(
  stdout: number | 'pipe',
): Promise<{ status: { dropped: number; failure: string | null }; code: number | null }> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', CHILD], {
    stdio: ['ignore', stdout, 'inherit', 'ipc'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const status = await new Promise<{ dropped: number; failure: string | null }>((resolve) =>
    child.once('message', (message) => resolve(message as { dropped: number; failure: string | null })),
  );
  child.kill('SIGTERM');
  return { status, code: await ended };
}

describe('a process', () => {
  it.runIf(existsSync('/dev/full'))('goes on and ends by SIGTERM on a full disk', async () => {
    const full = openSync('/dev/full', 'w');
    const { status, code } = await runOn(full);
    closeSync(full);
    expect(status.failure).toBe('ENOSPC');
    expect(status.dropped).toBeGreaterThan(0);
    expect(code).toBe(0);
  });

  it('goes on and ends by SIGTERM while its pipe has no reader', async () => {
    const { status, code } = await runOn('pipe');
    expect(status.failure).toBe('EAGAIN');
    expect(status.dropped).toBeGreaterThan(0);
    expect(code).toBe(0);
  });
});

test('a process that is busy while its last line is written ends with its own exit code', () => {
  const busy = `
    const { exitProcess, standardError } = await import('#db/diagnostics/process-output.ts');
    standardError.write('the last line\\n');
    const ended = exitProcess(3);
    const untilMs = performance.now() + 700;
    while (performance.now() < untilMs);
    await ended;
  `;
  const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', busy], {
    encoding: 'utf8',
  });
  expect([status, signal, stderr]).toEqual([3, null, 'the last line\n']);
});
