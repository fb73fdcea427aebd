import type { ControlEvent } from '#db/events/events.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';

/** A public model name, and where its calls go. */
export type Model = {
  name: string;
  terms: ModelTerms;
  state: 'active' | 'retired';
  /** The position of its newest event. */
  position: number;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/**
 * The model after one more event of its own stream; events of other subjects change nothing.
 * @param position where the event stands in the log.
 */
export function evolveModel(
  model: Model | undefined,
  event: ControlEvent,
  position: number,
): Model | undefined {
  switch (event.type) {
    case 'model.defined':
      return {
        name: event.model,
        terms: event.terms,
        state: 'active',
        position,
        version: (model?.version ?? 0) + 1,
      };
    case 'model.retired':
      return model && { ...model, state: 'retired', position, version: model.version + 1 };
    default:
      return model;
  }
}
