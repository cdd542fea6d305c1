/* Generated from scene-map.schema.json by scripts/generate-scene-map.ts: change the schema, not this file. */
'use strict';
export const validate = validate20;
export default validate20;
const schema31 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:waybill:schema:scene-map',
  title: 'Session scene map',
  description:
    'Divides a tabletop role-playing session transcript into sequential, contiguous, non-overlapping scenes that together cover it.',
  type: 'object',
  additionalProperties: false,
  required: ['artifact_type', 'session_scope', 'scenes', 'boundary_caveats'],
  properties: {
    artifact_type: {
      title: 'Artifact type',
      description: 'Must equal the constant `current_session_scene_map`.',
      type: 'string',
      const: 'current_session_scene_map',
    },
    session_scope: {
      title: 'Session scope',
      description: 'What the map covers.',
      type: 'object',
      additionalProperties: false,
      required: ['source_description', 'first_segment_id', 'last_segment_id'],
      properties: {
        source_description: {
          title: 'Source description',
          description: 'Brief description of the transcript or source reviewed.',
          type: 'string',
        },
        first_segment_id: {
          title: 'First segment',
          description: 'First transcript segment covered by the map.',
          type: 'integer',
        },
        last_segment_id: {
          title: 'Last segment',
          description: 'Final transcript segment covered by the map.',
          type: 'integer',
        },
      },
    },
    scenes: {
      title: 'Scenes',
      description:
        'The scenes in order, contiguous and without overlap, from the first segment of the scope to the last.',
      type: 'array',
      minItems: 1,
      items: {
        title: 'Scene',
        description: 'One scene of the session.',
        type: 'object',
        additionalProperties: false,
        required: [
          'scene_id',
          'start_segment_id',
          'end_segment_id',
          'short_title',
          'primary_mode',
          'main_participants',
          'summary',
          'boundary_note',
          'boundary_confidence',
        ],
        properties: {
          scene_id: {
            title: 'Scene identifier',
            description: 'Stable sequential scene identifier; ends with a digit.',
            type: 'string',
            pattern: '[0-9]$',
          },
          start_segment_id: {
            title: 'Start segment',
            description: 'Exact segment ID where the scene begins.',
            type: 'integer',
          },
          end_segment_id: {
            title: 'End segment',
            description: 'Exact segment ID where the scene ends.',
            type: 'integer',
          },
          short_title: { title: 'Short title', description: 'Compact descriptive title.', type: 'string' },
          primary_mode: {
            title: 'Primary mode',
            description: 'Dominant mode of play.',
            type: 'string',
            enum: ['Recap', 'Planning', 'Combat', 'Narrative'],
          },
          main_participants: {
            title: 'Main participants',
            description: 'Principal player characters, NPCs, factions or groups in the scene.',
            type: 'array',
            items: { title: 'Participant', description: "One participant's name.", type: 'string' },
          },
          summary: {
            title: 'Summary',
            description: 'One- to three-sentence factual summary of what happened.',
            type: 'string',
          },
          boundary_note: {
            title: 'Boundary note',
            description: 'Brief reason the scene starts and ends at these segment boundaries.',
            type: 'string',
          },
          boundary_confidence: {
            title: 'Boundary confidence',
            description: 'Confidence that the boundaries are natural and useful.',
            type: 'string',
            enum: ['High', 'Medium', 'Low'],
          },
        },
      },
    },
    boundary_caveats: {
      title: 'Boundary caveats',
      description:
        'Overall caveats: ambiguous transitions, map-dependent context, alternative reasonable divisions.',
      type: 'array',
      items: { title: 'Caveat', description: 'One caveat.', type: 'string' },
    },
  },
};
const func1 = Object.prototype.hasOwnProperty;
const pattern4 = new RegExp('[0-9]$', 'u');
function validate20(
  data,
  { instancePath = '', parentData, parentDataProperty, rootData = data, dynamicAnchors = {} } = {},
) {
  /*# sourceURL="urn:waybill:schema:scene-map" */ let vErrors = null;
  let errors = 0;
  const evaluated0 = validate20.evaluated;
  if (evaluated0.dynamicProps) {
    evaluated0.props = undefined;
  }
  if (evaluated0.dynamicItems) {
    evaluated0.items = undefined;
  }
  if (errors === 0) {
    if (data && typeof data == 'object' && !Array.isArray(data)) {
      let missing0;
      if (
        (data.artifact_type === undefined && (missing0 = 'artifact_type')) ||
        (data.session_scope === undefined && (missing0 = 'session_scope')) ||
        (data.scenes === undefined && (missing0 = 'scenes')) ||
        (data.boundary_caveats === undefined && (missing0 = 'boundary_caveats'))
      ) {
        validate20.errors = [
          {
            instancePath,
            schemaPath: '#/required',
            keyword: 'required',
            params: { missingProperty: missing0 },
            message: "must have required property '" + missing0 + "'",
          },
        ];
        return false;
      } else {
        const _errs1 = errors;
        for (const key0 in data) {
          if (!(
            key0 === 'artifact_type' ||
            key0 === 'session_scope' ||
            key0 === 'scenes' ||
            key0 === 'boundary_caveats'
          )) {
            validate20.errors = [
              {
                instancePath,
                schemaPath: '#/additionalProperties',
                keyword: 'additionalProperties',
                params: { additionalProperty: key0 },
                message: 'must NOT have additional properties',
              },
            ];
            return false;
            break;
          }
        }
        if (_errs1 === errors) {
          if (data.artifact_type !== undefined) {
            let data0 = data.artifact_type;
            const _errs2 = errors;
            if (typeof data0 !== 'string') {
              validate20.errors = [
                {
                  instancePath: instancePath + '/artifact_type',
                  schemaPath: '#/properties/artifact_type/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                },
              ];
              return false;
            }
            if ('current_session_scene_map' !== data0) {
              validate20.errors = [
                {
                  instancePath: instancePath + '/artifact_type',
                  schemaPath: '#/properties/artifact_type/const',
                  keyword: 'const',
                  params: { allowedValue: 'current_session_scene_map' },
                  message: 'must be equal to constant',
                },
              ];
              return false;
            }
            var valid0 = _errs2 === errors;
          } else {
            var valid0 = true;
          }
          if (valid0) {
            if (data.session_scope !== undefined) {
              let data1 = data.session_scope;
              const _errs4 = errors;
              if (errors === _errs4) {
                if (data1 && typeof data1 == 'object' && !Array.isArray(data1)) {
                  let missing1;
                  if (
                    (data1.source_description === undefined && (missing1 = 'source_description')) ||
                    (data1.first_segment_id === undefined && (missing1 = 'first_segment_id')) ||
                    (data1.last_segment_id === undefined && (missing1 = 'last_segment_id'))
                  ) {
                    validate20.errors = [
                      {
                        instancePath: instancePath + '/session_scope',
                        schemaPath: '#/properties/session_scope/required',
                        keyword: 'required',
                        params: { missingProperty: missing1 },
                        message: "must have required property '" + missing1 + "'",
                      },
                    ];
                    return false;
                  } else {
                    const _errs6 = errors;
                    for (const key1 in data1) {
                      if (!(
                        key1 === 'source_description' ||
                        key1 === 'first_segment_id' ||
                        key1 === 'last_segment_id'
                      )) {
                        validate20.errors = [
                          {
                            instancePath: instancePath + '/session_scope',
                            schemaPath: '#/properties/session_scope/additionalProperties',
                            keyword: 'additionalProperties',
                            params: { additionalProperty: key1 },
                            message: 'must NOT have additional properties',
                          },
                        ];
                        return false;
                        break;
                      }
                    }
                    if (_errs6 === errors) {
                      if (data1.source_description !== undefined) {
                        const _errs7 = errors;
                        if (typeof data1.source_description !== 'string') {
                          validate20.errors = [
                            {
                              instancePath: instancePath + '/session_scope/source_description',
                              schemaPath: '#/properties/session_scope/properties/source_description/type',
                              keyword: 'type',
                              params: { type: 'string' },
                              message: 'must be string',
                            },
                          ];
                          return false;
                        }
                        var valid1 = _errs7 === errors;
                      } else {
                        var valid1 = true;
                      }
                      if (valid1) {
                        if (data1.first_segment_id !== undefined) {
                          let data3 = data1.first_segment_id;
                          const _errs9 = errors;
                          if (!(
                            typeof data3 == 'number' &&
                            !(data3 % 1) &&
                            !isNaN(data3) &&
                            isFinite(data3)
                          )) {
                            validate20.errors = [
                              {
                                instancePath: instancePath + '/session_scope/first_segment_id',
                                schemaPath: '#/properties/session_scope/properties/first_segment_id/type',
                                keyword: 'type',
                                params: { type: 'integer' },
                                message: 'must be integer',
                              },
                            ];
                            return false;
                          }
                          var valid1 = _errs9 === errors;
                        } else {
                          var valid1 = true;
                        }
                        if (valid1) {
                          if (data1.last_segment_id !== undefined) {
                            let data4 = data1.last_segment_id;
                            const _errs11 = errors;
                            if (!(
                              typeof data4 == 'number' &&
                              !(data4 % 1) &&
                              !isNaN(data4) &&
                              isFinite(data4)
                            )) {
                              validate20.errors = [
                                {
                                  instancePath: instancePath + '/session_scope/last_segment_id',
                                  schemaPath: '#/properties/session_scope/properties/last_segment_id/type',
                                  keyword: 'type',
                                  params: { type: 'integer' },
                                  message: 'must be integer',
                                },
                              ];
                              return false;
                            }
                            var valid1 = _errs11 === errors;
                          } else {
                            var valid1 = true;
                          }
                        }
                      }
                    }
                  }
                } else {
                  validate20.errors = [
                    {
                      instancePath: instancePath + '/session_scope',
                      schemaPath: '#/properties/session_scope/type',
                      keyword: 'type',
                      params: { type: 'object' },
                      message: 'must be object',
                    },
                  ];
                  return false;
                }
              }
              var valid0 = _errs4 === errors;
            } else {
              var valid0 = true;
            }
            if (valid0) {
              if (data.scenes !== undefined) {
                let data5 = data.scenes;
                const _errs13 = errors;
                if (errors === _errs13) {
                  if (Array.isArray(data5)) {
                    if (data5.length < 1) {
                      validate20.errors = [
                        {
                          instancePath: instancePath + '/scenes',
                          schemaPath: '#/properties/scenes/minItems',
                          keyword: 'minItems',
                          params: { limit: 1 },
                          message: 'must NOT have fewer than 1 items',
                        },
                      ];
                      return false;
                    } else {
                      var valid2 = true;
                      const len0 = data5.length;
                      for (let i0 = 0; i0 < len0; i0++) {
                        let data6 = data5[i0];
                        const _errs15 = errors;
                        if (errors === _errs15) {
                          if (data6 && typeof data6 == 'object' && !Array.isArray(data6)) {
                            let missing2;
                            if (
                              (data6.scene_id === undefined && (missing2 = 'scene_id')) ||
                              (data6.start_segment_id === undefined && (missing2 = 'start_segment_id')) ||
                              (data6.end_segment_id === undefined && (missing2 = 'end_segment_id')) ||
                              (data6.short_title === undefined && (missing2 = 'short_title')) ||
                              (data6.primary_mode === undefined && (missing2 = 'primary_mode')) ||
                              (data6.main_participants === undefined && (missing2 = 'main_participants')) ||
                              (data6.summary === undefined && (missing2 = 'summary')) ||
                              (data6.boundary_note === undefined && (missing2 = 'boundary_note')) ||
                              (data6.boundary_confidence === undefined && (missing2 = 'boundary_confidence'))
                            ) {
                              validate20.errors = [
                                {
                                  instancePath: instancePath + '/scenes/' + i0,
                                  schemaPath: '#/properties/scenes/items/required',
                                  keyword: 'required',
                                  params: { missingProperty: missing2 },
                                  message: "must have required property '" + missing2 + "'",
                                },
                              ];
                              return false;
                            } else {
                              const _errs17 = errors;
                              for (const key2 in data6) {
                                if (!func1.call(schema31.properties.scenes.items.properties, key2)) {
                                  validate20.errors = [
                                    {
                                      instancePath: instancePath + '/scenes/' + i0,
                                      schemaPath: '#/properties/scenes/items/additionalProperties',
                                      keyword: 'additionalProperties',
                                      params: { additionalProperty: key2 },
                                      message: 'must NOT have additional properties',
                                    },
                                  ];
                                  return false;
                                  break;
                                }
                              }
                              if (_errs17 === errors) {
                                if (data6.scene_id !== undefined) {
                                  let data7 = data6.scene_id;
                                  const _errs18 = errors;
                                  if (errors === _errs18) {
                                    if (typeof data7 === 'string') {
                                      if (!pattern4.test(data7)) {
                                        validate20.errors = [
                                          {
                                            instancePath: instancePath + '/scenes/' + i0 + '/scene_id',
                                            schemaPath:
                                              '#/properties/scenes/items/properties/scene_id/pattern',
                                            keyword: 'pattern',
                                            params: { pattern: '[0-9]$' },
                                            message: 'must match pattern "' + '[0-9]$' + '"',
                                          },
                                        ];
                                        return false;
                                      }
                                    } else {
                                      validate20.errors = [
                                        {
                                          instancePath: instancePath + '/scenes/' + i0 + '/scene_id',
                                          schemaPath: '#/properties/scenes/items/properties/scene_id/type',
                                          keyword: 'type',
                                          params: { type: 'string' },
                                          message: 'must be string',
                                        },
                                      ];
                                      return false;
                                    }
                                  }
                                  var valid3 = _errs18 === errors;
                                } else {
                                  var valid3 = true;
                                }
                                if (valid3) {
                                  if (data6.start_segment_id !== undefined) {
                                    let data8 = data6.start_segment_id;
                                    const _errs20 = errors;
                                    if (!(
                                      typeof data8 == 'number' &&
                                      !(data8 % 1) &&
                                      !isNaN(data8) &&
                                      isFinite(data8)
                                    )) {
                                      validate20.errors = [
                                        {
                                          instancePath: instancePath + '/scenes/' + i0 + '/start_segment_id',
                                          schemaPath:
                                            '#/properties/scenes/items/properties/start_segment_id/type',
                                          keyword: 'type',
                                          params: { type: 'integer' },
                                          message: 'must be integer',
                                        },
                                      ];
                                      return false;
                                    }
                                    var valid3 = _errs20 === errors;
                                  } else {
                                    var valid3 = true;
                                  }
                                  if (valid3) {
                                    if (data6.end_segment_id !== undefined) {
                                      let data9 = data6.end_segment_id;
                                      const _errs22 = errors;
                                      if (!(
                                        typeof data9 == 'number' &&
                                        !(data9 % 1) &&
                                        !isNaN(data9) &&
                                        isFinite(data9)
                                      )) {
                                        validate20.errors = [
                                          {
                                            instancePath: instancePath + '/scenes/' + i0 + '/end_segment_id',
                                            schemaPath:
                                              '#/properties/scenes/items/properties/end_segment_id/type',
                                            keyword: 'type',
                                            params: { type: 'integer' },
                                            message: 'must be integer',
                                          },
                                        ];
                                        return false;
                                      }
                                      var valid3 = _errs22 === errors;
                                    } else {
                                      var valid3 = true;
                                    }
                                    if (valid3) {
                                      if (data6.short_title !== undefined) {
                                        const _errs24 = errors;
                                        if (typeof data6.short_title !== 'string') {
                                          validate20.errors = [
                                            {
                                              instancePath: instancePath + '/scenes/' + i0 + '/short_title',
                                              schemaPath:
                                                '#/properties/scenes/items/properties/short_title/type',
                                              keyword: 'type',
                                              params: { type: 'string' },
                                              message: 'must be string',
                                            },
                                          ];
                                          return false;
                                        }
                                        var valid3 = _errs24 === errors;
                                      } else {
                                        var valid3 = true;
                                      }
                                      if (valid3) {
                                        if (data6.primary_mode !== undefined) {
                                          let data11 = data6.primary_mode;
                                          const _errs26 = errors;
                                          if (typeof data11 !== 'string') {
                                            validate20.errors = [
                                              {
                                                instancePath:
                                                  instancePath + '/scenes/' + i0 + '/primary_mode',
                                                schemaPath:
                                                  '#/properties/scenes/items/properties/primary_mode/type',
                                                keyword: 'type',
                                                params: { type: 'string' },
                                                message: 'must be string',
                                              },
                                            ];
                                            return false;
                                          }
                                          if (!(
                                            data11 === 'Recap' ||
                                            data11 === 'Planning' ||
                                            data11 === 'Combat' ||
                                            data11 === 'Narrative'
                                          )) {
                                            validate20.errors = [
                                              {
                                                instancePath:
                                                  instancePath + '/scenes/' + i0 + '/primary_mode',
                                                schemaPath:
                                                  '#/properties/scenes/items/properties/primary_mode/enum',
                                                keyword: 'enum',
                                                params: {
                                                  allowedValues:
                                                    schema31.properties.scenes.items.properties.primary_mode
                                                      .enum,
                                                },
                                                message: 'must be equal to one of the allowed values',
                                              },
                                            ];
                                            return false;
                                          }
                                          var valid3 = _errs26 === errors;
                                        } else {
                                          var valid3 = true;
                                        }
                                        if (valid3) {
                                          if (data6.main_participants !== undefined) {
                                            let data12 = data6.main_participants;
                                            const _errs28 = errors;
                                            if (errors === _errs28) {
                                              if (Array.isArray(data12)) {
                                                var valid4 = true;
                                                const len1 = data12.length;
                                                for (let i1 = 0; i1 < len1; i1++) {
                                                  const _errs30 = errors;
                                                  if (typeof data12[i1] !== 'string') {
                                                    validate20.errors = [
                                                      {
                                                        instancePath:
                                                          instancePath +
                                                          '/scenes/' +
                                                          i0 +
                                                          '/main_participants/' +
                                                          i1,
                                                        schemaPath:
                                                          '#/properties/scenes/items/properties/main_participants/items/type',
                                                        keyword: 'type',
                                                        params: { type: 'string' },
                                                        message: 'must be string',
                                                      },
                                                    ];
                                                    return false;
                                                  }
                                                  var valid4 = _errs30 === errors;
                                                  if (!valid4) {
                                                    break;
                                                  }
                                                }
                                              } else {
                                                validate20.errors = [
                                                  {
                                                    instancePath:
                                                      instancePath + '/scenes/' + i0 + '/main_participants',
                                                    schemaPath:
                                                      '#/properties/scenes/items/properties/main_participants/type',
                                                    keyword: 'type',
                                                    params: { type: 'array' },
                                                    message: 'must be array',
                                                  },
                                                ];
                                                return false;
                                              }
                                            }
                                            var valid3 = _errs28 === errors;
                                          } else {
                                            var valid3 = true;
                                          }
                                          if (valid3) {
                                            if (data6.summary !== undefined) {
                                              const _errs32 = errors;
                                              if (typeof data6.summary !== 'string') {
                                                validate20.errors = [
                                                  {
                                                    instancePath: instancePath + '/scenes/' + i0 + '/summary',
                                                    schemaPath:
                                                      '#/properties/scenes/items/properties/summary/type',
                                                    keyword: 'type',
                                                    params: { type: 'string' },
                                                    message: 'must be string',
                                                  },
                                                ];
                                                return false;
                                              }
                                              var valid3 = _errs32 === errors;
                                            } else {
                                              var valid3 = true;
                                            }
                                            if (valid3) {
                                              if (data6.boundary_note !== undefined) {
                                                const _errs34 = errors;
                                                if (typeof data6.boundary_note !== 'string') {
                                                  validate20.errors = [
                                                    {
                                                      instancePath:
                                                        instancePath + '/scenes/' + i0 + '/boundary_note',
                                                      schemaPath:
                                                        '#/properties/scenes/items/properties/boundary_note/type',
                                                      keyword: 'type',
                                                      params: { type: 'string' },
                                                      message: 'must be string',
                                                    },
                                                  ];
                                                  return false;
                                                }
                                                var valid3 = _errs34 === errors;
                                              } else {
                                                var valid3 = true;
                                              }
                                              if (valid3) {
                                                if (data6.boundary_confidence !== undefined) {
                                                  let data16 = data6.boundary_confidence;
                                                  const _errs36 = errors;
                                                  if (typeof data16 !== 'string') {
                                                    validate20.errors = [
                                                      {
                                                        instancePath:
                                                          instancePath +
                                                          '/scenes/' +
                                                          i0 +
                                                          '/boundary_confidence',
                                                        schemaPath:
                                                          '#/properties/scenes/items/properties/boundary_confidence/type',
                                                        keyword: 'type',
                                                        params: { type: 'string' },
                                                        message: 'must be string',
                                                      },
                                                    ];
                                                    return false;
                                                  }
                                                  if (!(
                                                    data16 === 'High' ||
                                                    data16 === 'Medium' ||
                                                    data16 === 'Low'
                                                  )) {
                                                    validate20.errors = [
                                                      {
                                                        instancePath:
                                                          instancePath +
                                                          '/scenes/' +
                                                          i0 +
                                                          '/boundary_confidence',
                                                        schemaPath:
                                                          '#/properties/scenes/items/properties/boundary_confidence/enum',
                                                        keyword: 'enum',
                                                        params: {
                                                          allowedValues:
                                                            schema31.properties.scenes.items.properties
                                                              .boundary_confidence.enum,
                                                        },
                                                        message: 'must be equal to one of the allowed values',
                                                      },
                                                    ];
                                                    return false;
                                                  }
                                                  var valid3 = _errs36 === errors;
                                                } else {
                                                  var valid3 = true;
                                                }
                                              }
                                            }
                                          }
                                        }
                                      }
                                    }
                                  }
                                }
                              }
                            }
                          } else {
                            validate20.errors = [
                              {
                                instancePath: instancePath + '/scenes/' + i0,
                                schemaPath: '#/properties/scenes/items/type',
                                keyword: 'type',
                                params: { type: 'object' },
                                message: 'must be object',
                              },
                            ];
                            return false;
                          }
                        }
                        var valid2 = _errs15 === errors;
                        if (!valid2) {
                          break;
                        }
                      }
                    }
                  } else {
                    validate20.errors = [
                      {
                        instancePath: instancePath + '/scenes',
                        schemaPath: '#/properties/scenes/type',
                        keyword: 'type',
                        params: { type: 'array' },
                        message: 'must be array',
                      },
                    ];
                    return false;
                  }
                }
                var valid0 = _errs13 === errors;
              } else {
                var valid0 = true;
              }
              if (valid0) {
                if (data.boundary_caveats !== undefined) {
                  let data17 = data.boundary_caveats;
                  const _errs38 = errors;
                  if (errors === _errs38) {
                    if (Array.isArray(data17)) {
                      var valid5 = true;
                      const len2 = data17.length;
                      for (let i2 = 0; i2 < len2; i2++) {
                        const _errs40 = errors;
                        if (typeof data17[i2] !== 'string') {
                          validate20.errors = [
                            {
                              instancePath: instancePath + '/boundary_caveats/' + i2,
                              schemaPath: '#/properties/boundary_caveats/items/type',
                              keyword: 'type',
                              params: { type: 'string' },
                              message: 'must be string',
                            },
                          ];
                          return false;
                        }
                        var valid5 = _errs40 === errors;
                        if (!valid5) {
                          break;
                        }
                      }
                    } else {
                      validate20.errors = [
                        {
                          instancePath: instancePath + '/boundary_caveats',
                          schemaPath: '#/properties/boundary_caveats/type',
                          keyword: 'type',
                          params: { type: 'array' },
                          message: 'must be array',
                        },
                      ];
                      return false;
                    }
                  }
                  var valid0 = _errs38 === errors;
                } else {
                  var valid0 = true;
                }
              }
            }
          }
        }
      }
    } else {
      validate20.errors = [
        {
          instancePath,
          schemaPath: '#/type',
          keyword: 'type',
          params: { type: 'object' },
          message: 'must be object',
        },
      ];
      return false;
    }
  }
  validate20.errors = vErrors;
  return errors === 0;
}
validate20.evaluated = { props: true, dynamicProps: false, dynamicItems: false };
