import type { Config } from '#server/process/config.ts';
import { MAIL_TIMEOUT_MS, MAILS_AT_ONCE_MAX } from '#server/sign-in/bounds.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/**
 * Sends links through the configured SMTP server. Replies never wait for it, so their time doesn't reveal
 * whether an email is known.
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

  /** Sends a text. @returns whether the mail server accepted it; a failure is logged. */
  async send(to: string, subject: string, text: string): Promise<boolean> {
    if (this.#underWay >= MAILS_AT_ONCE_MAX) return false;
    this.#underWay++;
    try {
      // Loaded on demand: most installations have no mail server.
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

/** Null if no mail server is configured. */
export function openMail(
  { SMTP_URL, SMTP_FROM }: Pick<Config, 'SMTP_URL' | 'SMTP_FROM'>,
  log: Logger,
): Mail | null {
  return SMTP_URL === undefined || SMTP_FROM === undefined ? null : new Mail(SMTP_URL, SMTP_FROM, log);
}
