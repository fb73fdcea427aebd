import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** A mail server on a real socket, which takes everything and keeps it. */
export type MailServer = AsyncDisposable & {
  url: string;
  /** Each mail with its headers, as it came. */
  mails: { to: string; text: string }[];
  /** A recipient that is rejected from here on, with the reply to it. */
  reject: { to: string; reply: string } | null;
  /** Whether mails are taken without a reply. */
  isSilent: boolean;
};

/** The decoded attachment of a mail; null: it has none of this name. */
export function attachmentOf({ text }: MailServer['mails'][number], name: string): Buffer | null {
  const part = text.split(/^--[^\n]+$/m).find((each) => each.includes(`filename=${name}`));
  const body = part?.split('\n\n').slice(1).join('');
  return body === undefined ? null : Buffer.from(body, 'base64');
}

export async function startMailServer(): Promise<MailServer> {
  const mails: MailServer['mails'] = [];
  const rejecting: Pick<MailServer, 'reject' | 'isSilent'> = { reject: null, isSilent: false };
  const server = createServer((socket) => {
    let buffered = '';
    let to = '';
    let text: string | null = null;
    const say = (line: string): void => void socket.write(`${line}\r\n`);
    const hear = (line: string): void => {
      if (text !== null) {
        if (line !== '.') {
          text += `${line}\n`;
          return;
        }
        mails.push({ to, text });
        text = null;
        return rejecting.isSilent ? undefined : say('250 taken');
      }
      if (/^EHLO|^HELO/i.test(line)) return say('250 mail.test');
      if (/^QUIT/i.test(line)) return say('221 bye');
      if (/^DATA/i.test(line)) {
        text = '';
        return say('354 go on');
      }
      const recipient = /^RCPT TO:<(.*)>/i.exec(line);
      if (recipient) to = recipient[1] ?? '';
      if (recipient && to === rejecting.reject?.to) return say(rejecting.reject.reply);
      say('250 ok');
    };
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      buffered += chunk.toString();
      const lines = buffered.split('\r\n');
      buffered = lines.pop() ?? '';
      for (const line of lines) hear(line);
    });
    say('220 mail.test');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(rejecting, {
    url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mails,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  });
}
