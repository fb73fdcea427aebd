/**
 * Reads an SSE body that is received in any pieces. It is the tests' own reader, so that it can't share a
 * mistake with the relay's.
 */
export type SseReader = { push(bytes: Buffer): void };

/** What the reader finds: the data of each event, and each comment. Both without line ends. */
export type SseSink = { data(data: string): void; comment?(text: string): void };

const LF = 0x0a;
/** A longer line is skipped: no test looks into one, and an endless one must not fill the memory. */
const LINE_BYTES_MAX = 1024 ** 2;

/** A reader that calls the sink for every whole event. */
export function readSse(sink: SseSink): SseReader {
  let pieces: Buffer[] = [];
  let pendingBytes = 0;
  let data: string[] = [];

  function line(text: string): void {
    if (text === '') {
      if (data.length > 0) sink.data(data.join('\n'));
      data = [];
    } else if (text.startsWith(':')) {
      sink.comment?.(text.slice(1).trimStart());
    } else if (text.startsWith('data:')) {
      data.push(text.slice('data:'.length).replace(/^ /, ''));
    }
  }

  function keep(bytes: Buffer): void {
    pendingBytes += bytes.length;
    if (pendingBytes <= LINE_BYTES_MAX) pieces.push(bytes);
    else pieces = [];
  }

  return {
    push(bytes) {
      let start = 0;
      for (let end = bytes.indexOf(LF); end >= 0; end = bytes.indexOf(LF, start)) {
        keep(bytes.subarray(start, end));
        // A line is decoded when it is whole, so a character cut between two pieces is whole too.
        if (pendingBytes <= LINE_BYTES_MAX) line(Buffer.concat(pieces).toString().replace(/\r$/, ''));
        pieces = [];
        pendingBytes = 0;
        start = end + 1;
      }
      keep(bytes.subarray(start));
    },
  };
}
