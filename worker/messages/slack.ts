import type { AlertMessage } from './message.ts';

/**
 * The body of a message for a Slack incoming webhook, in Block Kit. Texts with names that members choose are
 * plain, so that none can mention a channel or carry a link. Pure.
 */
export function slackBody({ title, line, facts, url }: AlertMessage): string {
  const text = (each: string) => ({ type: 'plain_text', text: each, emoji: false });
  return JSON.stringify({
    // Notifications show it. As markup, unlike the blocks.
    text: escapeMarkup(`${title}. ${line}`),
    blocks: [
      { type: 'header', text: text(title) },
      { type: 'section', text: text(line) },
      {
        type: 'context',
        elements: [
          ...facts.map(([name, value]) => text(`${name}: ${value}`)),
          ...(url === null ? [] : [{ type: 'mrkdwn', text: `<${escapeMarkup(url)}|View in Daybook>` }]),
        ],
      },
    ],
  });
}

const escapeMarkup = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
