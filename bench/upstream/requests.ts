/** What the mock needs to know of a request; the rest of the body is read and forgotten. */
export type MockRequest = { model: string; asksUsage: boolean };

export type RequestReader = {
  /** Takes bytes as they come. @throws {Error} when they are not what a proxy may send us. */
  feed: (bytes: Buffer) => void;
};

// The driver writes the model first and stream_options last, and a relay that splices them in does
// so at the same two places; gateways that rewrite the body put the model behind the messages. Nothing
// between has to be searched.
const START_BYTES = 512;
const END_BYTES = 512;

const MODEL = /"model": ?"([^"]+)"/;
const HEAD_MAX_BYTES = 16_384;

/**
 * Frames the requests of one connection: bodies of a known length, one request at a time. Every
 * proxy under test buffers the body and so knows its length; anything else is a defect to be shown.
 */
export function createRequestReader(onRequest: (request: MockRequest) => void): RequestReader {
  let head: Buffer | null = null;
  let inBody = false;
  let missingBytes = 0;
  let start: Buffer = Buffer.alloc(0);
  let end: Buffer = Buffer.alloc(0);

  function takeHead(bytes: Buffer): Buffer | null {
    const all = head ? Buffer.concat([head, bytes]) : bytes;
    const headBytes = all.indexOf('\r\n\r\n');
    if (headBytes < 0) {
      if (all.length > HEAD_MAX_BYTES) throw new Error('the request head does not end');
      head = all;
      return null;
    }
    head = null;
    const length = /\r\ncontent-length: *(\d+)/i.exec(all.toString('latin1', 0, headBytes));
    if (!length) throw new Error('a request without content-length');
    inBody = true;
    missingBytes = Number(length[1]);
    start = end = Buffer.alloc(0);
    return all.subarray(headBytes + 4);
  }

  function takeBody(bytes: Buffer): Buffer {
    const part = bytes.length > missingBytes ? bytes.subarray(0, missingBytes) : bytes;
    if (start.length < START_BYTES) start = start.length === 0 ? part : Buffer.concat([start, part]);
    end =
      part.length >= END_BYTES || end.length === 0 ? part : Buffer.concat([end.subarray(-END_BYTES), part]);
    missingBytes -= part.length;
    return bytes.subarray(part.length);
  }

  return {
    feed(bytes) {
      let rest: Buffer | null = bytes;
      while (rest && (rest.length > 0 || (inBody && missingBytes === 0))) {
        rest = inBody ? takeBody(rest) : takeHead(rest);
        if (!inBody || missingBytes > 0) continue;
        inBody = false;
        const ending = end.toString('latin1', Math.max(0, end.length - END_BYTES));
        const [, model = ''] =
          MODEL.exec(start.toString('latin1', 0, START_BYTES)) ?? MODEL.exec(ending) ?? [];
        onRequest({ model, asksUsage: ending.includes('"include_usage":true') });
      }
    },
  };
}
