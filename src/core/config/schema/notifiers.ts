import * as kinds from '../../lib/settings/kinds.ts';
import { choice, id, list, map, variants } from '../../lib/settings/kinds.ts';
import type { Setting } from '../../lib/settings/setting.ts';
import { subscribableTypes } from '../../notify/event.ts';
import { allSinkKinds, type AnySinkKind, type SinkDocument } from '../../notify/sink-kinds.ts';
import type { NotifierDocument } from '../document.ts';

/** The part `notifiers` of the configuration. */
const common = {
  id: id().required().description('Name of the notifier, for logs and warnings.').example('hook'),
  events: list(choice(...subscribableTypes), {
    min: 1,
    expected: `a list of ${subscribableTypes.join(', ')}, at least one`,
  })
    .default(['bundle.published'])
    .description('Which events the notifier is told of.'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
    'Only what these pipelines do; without it, what all of them do.',
  ),
};

export const notifierSchema = variants<NotifierDocument>(
  'kind',
  'a notifier',
  Object.fromEntries(allSinkKinds.map((sink) => [sink.kind, settingOf(sink)])),
);

function settingOf(sink: AnySinkKind): Setting {
  const kind = choice(sink.kind).required().description(sink.summary);
  const check = (value: SinkDocument): ReturnType<AnySinkKind['fault']> => sink.fault(value);
  return map({ ...common, kind, ...sink.settings(kinds) }, { check });
}
