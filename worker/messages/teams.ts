import type { AlertMessage } from './message.ts';

/**
 * The body of a message for a Microsoft Teams workflow ("When a Teams webhook request is received"), as an
 * Adaptive Card. Pure.
 */
export function teamsBody({ title, line, facts, url }: AlertMessage): string {
  return JSON.stringify({
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            { type: 'TextBlock', text: escapeMarkdown(title), size: 'Medium', weight: 'Bolder', wrap: true },
            { type: 'TextBlock', text: escapeMarkdown(line), wrap: true },
            {
              type: 'FactSet',
              facts: facts.map(([name, value]) => ({ title: name, value: escapeMarkdown(value) })),
            },
          ],
          actions: url === null ? [] : [{ type: 'Action.OpenUrl', title: 'View in Daybook', url }],
        },
      },
    ],
  });
}

/** Texts of cards are Markdown; names that members choose must not become links. */
const escapeMarkdown = (text: string): string => text.replaceAll(/[\\`*_[\]()#]/g, '\\$&');
