import t from 'tap';
import { limitsOf, typeOf } from '../../../src/api/openapi/schema-words.ts';
import { daemonRoutes as routes } from '../../../src/cli/daemon/daemon-app.ts';

t.test('names the type of a parameter with its format', (t) => {
  t.equal(typeOf({ type: 'integer', minimum: 1 }), 'integer');
  t.equal(typeOf({ type: 'string', format: 'date-time' }), 'string (date-time)');
  t.equal(
    typeOf({ type: 'string', anyOf: [{ format: 'date-time' }, { format: 'date' }] }),
    'string (date-time or date)',
  );
  t.equal(typeOf({ const: '1.0.0' }), 'string');
  t.end();
});

t.test('describes valid values in sentences', (t) => {
  t.equal(limitsOf({ type: 'string' }), '');
  t.equal(limitsOf({ type: 'integer', minimum: 1, maximum: 500, default: 50 }), '1 to 500. Default: `50`.');
  t.equal(limitsOf({ type: 'integer', minimum: 0 }), 'At least 0.');
  t.equal(limitsOf({ type: 'string', maxLength: 1024 }), 'At most 1,024 characters.');
  t.equal(
    limitsOf({ enum: ['true', 'false', ''], default: 'false' }),
    'One of `true`, `false`. Default: `false`.',
  );
  t.equal(limitsOf({ const: 1 }), 'Always `1`.');
  t.equal(limitsOf({ description: 'Two letters.', pattern: '^[A-Z]{2}$' }), 'Two letters.');
  t.end();
});

t.test('no parameter of the API shows a regular expression', (t) => {
  for (const { operationId, parameters = [] } of routes)
    for (const { name, schema } of parameters)
      t.notMatch(limitsOf(schema), /Must match|[\^$\\{]/, `${name} of ${operationId}`);
  t.end();
});
