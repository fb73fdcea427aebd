import { parentPort, workerData } from 'node:worker_threads';
import { layOutPdf, type PdfInput } from '#db/statement/pdf/layout.ts';

/** The thread that lays out one document; see `render.ts`. */
const bytes = await layOutPdf(workerData as PdfInput);
// A port between threads has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(bytes);
