import { Worker } from 'node:worker_threads';
import type { PdfInput } from '#db/statement/pdf/layout.ts';

/** Documents that one process lays out at once: each takes a core for some hundred milliseconds. */
const RENDERS_MAX = 2;
const RENDER_TIMEOUT_MS = 20_000;
const HEAP_MAX_MB = 192;

let running = 0;

/**
 * Lays out a document in a thread of its own, so that no call waits for it.
 * @returns null if too many are being laid out.
 * @throws {Error} when it takes too long or too much memory.
 */
export async function renderPdf(input: PdfInput): Promise<Buffer | null> {
  if (running >= RENDERS_MAX) return null;
  running++;
  const thread = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: input,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB },
  });
  try {
    return await new Promise<Buffer>((resolve, reject) => {
      const timeout = setTimeout(() => reject(new Error('the document took too long')), RENDER_TIMEOUT_MS);
      timeout.unref();
      thread.once('message', (bytes: Uint8Array) => resolve(Buffer.from(bytes)));
      thread.once('error', reject);
      thread.once('exit', () => reject(new Error('the document was not finished')));
    });
  } finally {
    running--;
    void thread.terminate();
  }
}
