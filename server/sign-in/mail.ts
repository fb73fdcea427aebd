import type { Config } from '#server/process/config.ts';
import { MAIL_TIMEOUT_MS, MAILS_AT_ONCE_MAX } from '#server/sign-in/bounds.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';

/**
 * Sends links by the operator's own mail server, where there is one. Nobody waits for it: whether
 * an address is known must not be told by how long a reply takes.
 */
export class Mail {
  readonly #url: string;
  readonly #from: string;
  readonly #log: Logger;
  #underWay = 0;

  constructor(url: string, from: string, log: Logger) {
    this.#url = url;
    this.#from = from;
    this.#log = log;
  }

  /** Sends a text. @returns whether the mail server took it; why not is in the log. */
  async send(to: string, subject: string, text: string): Promise<boolean> {
    if (this.#underWay >= MAILS_AT_ONCE_MAX) return false;
    this.#underWay++;
    try {
      // Most installations have no mail server, and need not load this.
      const { createTransport } = await import('nodemailer');
      const transport = createTransport({
        url: this.#url,
        connectionTimeout: MAIL_TIMEOUT_MS,
        greetingTimeout: MAIL_TIMEOUT_MS,
        socketTimeout: MAIL_TIMEOUT_MS,
        dnsTimeout: MAIL_TIMEOUT_MS,
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      try {
        await transport.sendMail({ from: this.#from, to: { name: '', address: to }, subject, text });
        return true;
      } finally {
        transport.close();
      }
    } catch (error) {
      this.#log.warn(errorFields(error), 'a mail was not sent');
      return false;
    } finally {
      this.#underWay--;
    }
  }
}

/** Null where no mail server is set up. */
export function openMail(
  { SMTP_URL, SMTP_FROM }: Pick<Config, 'SMTP_URL' | 'SMTP_FROM'>,
  log: Logger,
): Mail | null {
  return SMTP_URL === undefined || SMTP_FROM === undefined ? null : new Mail(SMTP_URL, SMTP_FROM, log);
}
