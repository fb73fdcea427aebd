import type { Reply } from './receiver.ts';

/** The mail server by which alerts and statements are sent. */
export type MailServer = { url: string; from: string };

export type Attachment = { filename: string; content: Buffer; contentType: string };

export type Email = {
  to: string;
  subject: string;
  text: string;
  attachments?: Attachment[];
  /** The same for each attempt, so that mail servers can recognize a repetition. */
  id: string;
  timeoutMs: number;
  /** Aborts for a reason of the worker's own. */
  signal: AbortSignal;
};

/**
 * Sends an email within `timeoutMs` and returns the mail server's status: 250 where it accepted.
 * @throws {Error} only when `signal` has aborted: it is then unknown whether the email was accepted.
 */
export async function sendEmail(
  { url, from }: MailServer,
  { to, subject, text, attachments = [], id, timeoutMs, signal }: Email,
): Promise<Reply> {
  // Loaded on demand: most installations have no mail server.
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    url,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const ending = AbortSignal.any([AbortSignal.timeout(timeoutMs), signal]);
  ending.addEventListener('abort', () => reject(new Error('ended')), { once: true });
  try {
    await Promise.race([
      transport.sendMail({
        from,
        to: { name: '', address: to },
        subject,
        text,
        attachments,
        messageId: `<${id}@daybook.invalid>`,
        // Answers of absence would come back for each email.
        headers: { 'Auto-Submitted': 'auto-generated' },
      }),
      ended,
    ]);
    return { status: 250, body: '' };
  } catch (error) {
    if (signal.aborted) throw error;
    return ending.aborted ? { fault: 'timed_out' } : replyOf(error);
  } finally {
    transport.close();
  }
}

/** The status or the code of the error; its message may contain an address. */
function replyOf(error: unknown): Reply {
  const { responseCode, code } = error as { responseCode?: unknown; code?: unknown };
  if (typeof responseCode === 'number') return { status: responseCode, body: '' };
  return { fault: typeof code === 'string' && /^[A-Za-z0-9_]{1,64}$/.test(code) ? code : 'failed' };
}
