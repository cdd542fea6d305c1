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
  if (data && typeof data == 'object' && !Array.isArray(data)) {
    if (data.artifact_type === undefined) {
      const err0 = {
        instancePath,
        schemaPath: '#/required',
        keyword: 'required',
        params: { missingProperty: 'artifact_type' },
        message: "must have required property '" + 'artifact_type' + "'",
        schema: schema31.required,
        parentSchema: schema31,
        data,
      };
      if (vErrors === null) {
        vErrors = [err0];
      } else {
        vErrors.push(err0);
      }
      errors++;
    }
    if (data.session_scope === undefined) {
      const err1 = {
        instancePath,
        schemaPath: '#/required',
        keyword: 'required',
        params: { missingProperty: 'session_scope' },
        message: "must have required property '" + 'session_scope' + "'",
        schema: schema31.required,
        parentSchema: schema31,
        data,
      };
      if (vErrors === null) {
        vErrors = [err1];
      } else {
        vErrors.push(err1);
      }
      errors++;
    }
    if (data.scenes === undefined) {
      const err2 = {
        instancePath,
        schemaPath: '#/required',
        keyword: 'required',
        params: { missingProperty: 'scenes' },
        message: "must have required property '" + 'scenes' + "'",
        schema: schema31.required,
        parentSchema: schema31,
        data,
      };
      if (vErrors === null) {
        vErrors = [err2];
      } else {
        vErrors.push(err2);
      }
      errors++;
    }
    if (data.boundary_caveats === undefined) {
      const err3 = {
        instancePath,
        schemaPath: '#/required',
        keyword: 'required',
        params: { missingProperty: 'boundary_caveats' },
        message: "must have required property '" + 'boundary_caveats' + "'",
        schema: schema31.required,
        parentSchema: schema31,
        data,
      };
      if (vErrors === null) {
        vErrors = [err3];
      } else {
        vErrors.push(err3);
      }
      errors++;
    }
    for (const key0 in data) {
      if (!(
        key0 === 'artifact_type' ||
        key0 === 'session_scope' ||
        key0 === 'scenes' ||
        key0 === 'boundary_caveats'
      )) {
        const err4 = {
          instancePath,
          schemaPath: '#/additionalProperties',
          keyword: 'additionalProperties',
          params: { additionalProperty: key0 },
          message: 'must NOT have additional properties',
          schema: false,
          parentSchema: schema31,
          data,
        };
        if (vErrors === null) {
          vErrors = [err4];
        } else {
          vErrors.push(err4);
        }
        errors++;
      }
    }
    if (data.artifact_type !== undefined) {
      let data0 = data.artifact_type;
      if (typeof data0 !== 'string') {
        const err5 = {
          instancePath: instancePath + '/artifact_type',
          schemaPath: '#/properties/artifact_type/type',
          keyword: 'type',
          params: { type: 'string' },
          message: 'must be string',
          schema: schema31.properties.artifact_type.type,
          parentSchema: schema31.properties.artifact_type,
          data: data0,
        };
        if (vErrors === null) {
          vErrors = [err5];
        } else {
          vErrors.push(err5);
        }
        errors++;
      }
      if ('current_session_scene_map' !== data0) {
        const err6 = {
          instancePath: instancePath + '/artifact_type',
          schemaPath: '#/properties/artifact_type/const',
          keyword: 'const',
          params: { allowedValue: 'current_session_scene_map' },
          message: 'must be equal to constant',
          schema: 'current_session_scene_map',
          parentSchema: schema31.properties.artifact_type,
          data: data0,
        };
        if (vErrors === null) {
          vErrors = [err6];
        } else {
          vErrors.push(err6);
        }
        errors++;
      }
    }
    if (data.session_scope !== undefined) {
      let data1 = data.session_scope;
      if (data1 && typeof data1 == 'object' && !Array.isArray(data1)) {
        if (data1.source_description === undefined) {
          const err7 = {
            instancePath: instancePath + '/session_scope',
            schemaPath: '#/properties/session_scope/required',
            keyword: 'required',
            params: { missingProperty: 'source_description' },
            message: "must have required property '" + 'source_description' + "'",
            schema: schema31.properties.session_scope.required,
            parentSchema: schema31.properties.session_scope,
            data: data1,
          };
          if (vErrors === null) {
            vErrors = [err7];
          } else {
            vErrors.push(err7);
          }
          errors++;
        }
        if (data1.first_segment_id === undefined) {
          const err8 = {
            instancePath: instancePath + '/session_scope',
            schemaPath: '#/properties/session_scope/required',
            keyword: 'required',
            params: { missingProperty: 'first_segment_id' },
            message: "must have required property '" + 'first_segment_id' + "'",
            schema: schema31.properties.session_scope.required,
            parentSchema: schema31.properties.session_scope,
            data: data1,
          };
          if (vErrors === null) {
            vErrors = [err8];
          } else {
            vErrors.push(err8);
          }
          errors++;
        }
        if (data1.last_segment_id === undefined) {
          const err9 = {
            instancePath: instancePath + '/session_scope',
            schemaPath: '#/properties/session_scope/required',
            keyword: 'required',
            params: { missingProperty: 'last_segment_id' },
            message: "must have required property '" + 'last_segment_id' + "'",
            schema: schema31.properties.session_scope.required,
            parentSchema: schema31.properties.session_scope,
            data: data1,
          };
          if (vErrors === null) {
            vErrors = [err9];
          } else {
            vErrors.push(err9);
          }
          errors++;
        }
        for (const key1 in data1) {
          if (!(key1 === 'source_description' || key1 === 'first_segment_id' || key1 === 'last_segment_id')) {
            const err10 = {
              instancePath: instancePath + '/session_scope',
              schemaPath: '#/properties/session_scope/additionalProperties',
              keyword: 'additionalProperties',
              params: { additionalProperty: key1 },
              message: 'must NOT have additional properties',
              schema: false,
              parentSchema: schema31.properties.session_scope,
              data: data1,
            };
            if (vErrors === null) {
              vErrors = [err10];
            } else {
              vErrors.push(err10);
            }
            errors++;
          }
        }
        if (data1.source_description !== undefined) {
          let data2 = data1.source_description;
          if (typeof data2 !== 'string') {
            const err11 = {
              instancePath: instancePath + '/session_scope/source_description',
              schemaPath: '#/properties/session_scope/properties/source_description/type',
              keyword: 'type',
              params: { type: 'string' },
              message: 'must be string',
              schema: schema31.properties.session_scope.properties.source_description.type,
              parentSchema: schema31.properties.session_scope.properties.source_description,
              data: data2,
            };
            if (vErrors === null) {
              vErrors = [err11];
            } else {
              vErrors.push(err11);
            }
            errors++;
          }
        }
        if (data1.first_segment_id !== undefined) {
          let data3 = data1.first_segment_id;
          if (!(typeof data3 == 'number' && !(data3 % 1) && !isNaN(data3) && isFinite(data3))) {
            const err12 = {
              instancePath: instancePath + '/session_scope/first_segment_id',
              schemaPath: '#/properties/session_scope/properties/first_segment_id/type',
              keyword: 'type',
              params: { type: 'integer' },
              message: 'must be integer',
              schema: schema31.properties.session_scope.properties.first_segment_id.type,
              parentSchema: schema31.properties.session_scope.properties.first_segment_id,
              data: data3,
            };
            if (vErrors === null) {
              vErrors = [err12];
            } else {
              vErrors.push(err12);
            }
            errors++;
          }
        }
        if (data1.last_segment_id !== undefined) {
          let data4 = data1.last_segment_id;
          if (!(typeof data4 == 'number' && !(data4 % 1) && !isNaN(data4) && isFinite(data4))) {
            const err13 = {
              instancePath: instancePath + '/session_scope/last_segment_id',
              schemaPath: '#/properties/session_scope/properties/last_segment_id/type',
              keyword: 'type',
              params: { type: 'integer' },
              message: 'must be integer',
              schema: schema31.properties.session_scope.properties.last_segment_id.type,
              parentSchema: schema31.properties.session_scope.properties.last_segment_id,
              data: data4,
            };
            if (vErrors === null) {
              vErrors = [err13];
            } else {
              vErrors.push(err13);
            }
            errors++;
          }
        }
      } else {
        const err14 = {
          instancePath: instancePath + '/session_scope',
          schemaPath: '#/properties/session_scope/type',
          keyword: 'type',
          params: { type: 'object' },
          message: 'must be object',
          schema: schema31.properties.session_scope.type,
          parentSchema: schema31.properties.session_scope,
          data: data1,
        };
        if (vErrors === null) {
          vErrors = [err14];
        } else {
          vErrors.push(err14);
        }
        errors++;
      }
    }
    if (data.scenes !== undefined) {
      let data5 = data.scenes;
      if (Array.isArray(data5)) {
        if (data5.length < 1) {
          const err15 = {
            instancePath: instancePath + '/scenes',
            schemaPath: '#/properties/scenes/minItems',
            keyword: 'minItems',
            params: { limit: 1 },
            message: 'must NOT have fewer than 1 items',
            schema: 1,
            parentSchema: schema31.properties.scenes,
            data: data5,
          };
          if (vErrors === null) {
            vErrors = [err15];
          } else {
            vErrors.push(err15);
          }
          errors++;
        }
        const len0 = data5.length;
        for (let i0 = 0; i0 < len0; i0++) {
          let data6 = data5[i0];
          if (data6 && typeof data6 == 'object' && !Array.isArray(data6)) {
            if (data6.scene_id === undefined) {
              const err16 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'scene_id' },
                message: "must have required property '" + 'scene_id' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err16];
              } else {
                vErrors.push(err16);
              }
              errors++;
            }
            if (data6.start_segment_id === undefined) {
              const err17 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'start_segment_id' },
                message: "must have required property '" + 'start_segment_id' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err17];
              } else {
                vErrors.push(err17);
              }
              errors++;
            }
            if (data6.end_segment_id === undefined) {
              const err18 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'end_segment_id' },
                message: "must have required property '" + 'end_segment_id' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err18];
              } else {
                vErrors.push(err18);
              }
              errors++;
            }
            if (data6.short_title === undefined) {
              const err19 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'short_title' },
                message: "must have required property '" + 'short_title' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err19];
              } else {
                vErrors.push(err19);
              }
              errors++;
            }
            if (data6.primary_mode === undefined) {
              const err20 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'primary_mode' },
                message: "must have required property '" + 'primary_mode' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err20];
              } else {
                vErrors.push(err20);
              }
              errors++;
            }
            if (data6.main_participants === undefined) {
              const err21 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'main_participants' },
                message: "must have required property '" + 'main_participants' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err21];
              } else {
                vErrors.push(err21);
              }
              errors++;
            }
            if (data6.summary === undefined) {
              const err22 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'summary' },
                message: "must have required property '" + 'summary' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err22];
              } else {
                vErrors.push(err22);
              }
              errors++;
            }
            if (data6.boundary_note === undefined) {
              const err23 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'boundary_note' },
                message: "must have required property '" + 'boundary_note' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err23];
              } else {
                vErrors.push(err23);
              }
              errors++;
            }
            if (data6.boundary_confidence === undefined) {
              const err24 = {
                instancePath: instancePath + '/scenes/' + i0,
                schemaPath: '#/properties/scenes/items/required',
                keyword: 'required',
                params: { missingProperty: 'boundary_confidence' },
                message: "must have required property '" + 'boundary_confidence' + "'",
                schema: schema31.properties.scenes.items.required,
                parentSchema: schema31.properties.scenes.items,
                data: data6,
              };
              if (vErrors === null) {
                vErrors = [err24];
              } else {
                vErrors.push(err24);
              }
              errors++;
            }
            for (const key2 in data6) {
              if (!func1.call(schema31.properties.scenes.items.properties, key2)) {
                const err25 = {
                  instancePath: instancePath + '/scenes/' + i0,
                  schemaPath: '#/properties/scenes/items/additionalProperties',
                  keyword: 'additionalProperties',
                  params: { additionalProperty: key2 },
                  message: 'must NOT have additional properties',
                  schema: false,
                  parentSchema: schema31.properties.scenes.items,
                  data: data6,
                };
                if (vErrors === null) {
                  vErrors = [err25];
                } else {
                  vErrors.push(err25);
                }
                errors++;
              }
            }
            if (data6.scene_id !== undefined) {
              let data7 = data6.scene_id;
              if (typeof data7 === 'string') {
                if (!pattern4.test(data7)) {
                  const err26 = {
                    instancePath: instancePath + '/scenes/' + i0 + '/scene_id',
                    schemaPath: '#/properties/scenes/items/properties/scene_id/pattern',
                    keyword: 'pattern',
                    params: { pattern: '[0-9]$' },
                    message: 'must match pattern "' + '[0-9]$' + '"',
                    schema: '[0-9]$',
                    parentSchema: schema31.properties.scenes.items.properties.scene_id,
                    data: data7,
                  };
                  if (vErrors === null) {
                    vErrors = [err26];
                  } else {
                    vErrors.push(err26);
                  }
                  errors++;
                }
              } else {
                const err27 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/scene_id',
                  schemaPath: '#/properties/scenes/items/properties/scene_id/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.scene_id.type,
                  parentSchema: schema31.properties.scenes.items.properties.scene_id,
                  data: data7,
                };
                if (vErrors === null) {
                  vErrors = [err27];
                } else {
                  vErrors.push(err27);
                }
                errors++;
              }
            }
            if (data6.start_segment_id !== undefined) {
              let data8 = data6.start_segment_id;
              if (!(typeof data8 == 'number' && !(data8 % 1) && !isNaN(data8) && isFinite(data8))) {
                const err28 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/start_segment_id',
                  schemaPath: '#/properties/scenes/items/properties/start_segment_id/type',
                  keyword: 'type',
                  params: { type: 'integer' },
                  message: 'must be integer',
                  schema: schema31.properties.scenes.items.properties.start_segment_id.type,
                  parentSchema: schema31.properties.scenes.items.properties.start_segment_id,
                  data: data8,
                };
                if (vErrors === null) {
                  vErrors = [err28];
                } else {
                  vErrors.push(err28);
                }
                errors++;
              }
            }
            if (data6.end_segment_id !== undefined) {
              let data9 = data6.end_segment_id;
              if (!(typeof data9 == 'number' && !(data9 % 1) && !isNaN(data9) && isFinite(data9))) {
                const err29 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/end_segment_id',
                  schemaPath: '#/properties/scenes/items/properties/end_segment_id/type',
                  keyword: 'type',
                  params: { type: 'integer' },
                  message: 'must be integer',
                  schema: schema31.properties.scenes.items.properties.end_segment_id.type,
                  parentSchema: schema31.properties.scenes.items.properties.end_segment_id,
                  data: data9,
                };
                if (vErrors === null) {
                  vErrors = [err29];
                } else {
                  vErrors.push(err29);
                }
                errors++;
              }
            }
            if (data6.short_title !== undefined) {
              let data10 = data6.short_title;
              if (typeof data10 !== 'string') {
                const err30 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/short_title',
                  schemaPath: '#/properties/scenes/items/properties/short_title/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.short_title.type,
                  parentSchema: schema31.properties.scenes.items.properties.short_title,
                  data: data10,
                };
                if (vErrors === null) {
                  vErrors = [err30];
                } else {
                  vErrors.push(err30);
                }
                errors++;
              }
            }
            if (data6.primary_mode !== undefined) {
              let data11 = data6.primary_mode;
              if (typeof data11 !== 'string') {
                const err31 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/primary_mode',
                  schemaPath: '#/properties/scenes/items/properties/primary_mode/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.primary_mode.type,
                  parentSchema: schema31.properties.scenes.items.properties.primary_mode,
                  data: data11,
                };
                if (vErrors === null) {
                  vErrors = [err31];
                } else {
                  vErrors.push(err31);
                }
                errors++;
              }
              if (!(
                data11 === 'Recap' ||
                data11 === 'Planning' ||
                data11 === 'Combat' ||
                data11 === 'Narrative'
              )) {
                const err32 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/primary_mode',
                  schemaPath: '#/properties/scenes/items/properties/primary_mode/enum',
                  keyword: 'enum',
                  params: { allowedValues: schema31.properties.scenes.items.properties.primary_mode.enum },
                  message: 'must be equal to one of the allowed values',
                  schema: schema31.properties.scenes.items.properties.primary_mode.enum,
                  parentSchema: schema31.properties.scenes.items.properties.primary_mode,
                  data: data11,
                };
                if (vErrors === null) {
                  vErrors = [err32];
                } else {
                  vErrors.push(err32);
                }
                errors++;
              }
            }
            if (data6.main_participants !== undefined) {
              let data12 = data6.main_participants;
              if (Array.isArray(data12)) {
                const len1 = data12.length;
                for (let i1 = 0; i1 < len1; i1++) {
                  let data13 = data12[i1];
                  if (typeof data13 !== 'string') {
                    const err33 = {
                      instancePath: instancePath + '/scenes/' + i0 + '/main_participants/' + i1,
                      schemaPath: '#/properties/scenes/items/properties/main_participants/items/type',
                      keyword: 'type',
                      params: { type: 'string' },
                      message: 'must be string',
                      schema: schema31.properties.scenes.items.properties.main_participants.items.type,
                      parentSchema: schema31.properties.scenes.items.properties.main_participants.items,
                      data: data13,
                    };
                    if (vErrors === null) {
                      vErrors = [err33];
                    } else {
                      vErrors.push(err33);
                    }
                    errors++;
                  }
                }
              } else {
                const err34 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/main_participants',
                  schemaPath: '#/properties/scenes/items/properties/main_participants/type',
                  keyword: 'type',
                  params: { type: 'array' },
                  message: 'must be array',
                  schema: schema31.properties.scenes.items.properties.main_participants.type,
                  parentSchema: schema31.properties.scenes.items.properties.main_participants,
                  data: data12,
                };
                if (vErrors === null) {
                  vErrors = [err34];
                } else {
                  vErrors.push(err34);
                }
                errors++;
              }
            }
            if (data6.summary !== undefined) {
              let data14 = data6.summary;
              if (typeof data14 !== 'string') {
                const err35 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/summary',
                  schemaPath: '#/properties/scenes/items/properties/summary/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.summary.type,
                  parentSchema: schema31.properties.scenes.items.properties.summary,
                  data: data14,
                };
                if (vErrors === null) {
                  vErrors = [err35];
                } else {
                  vErrors.push(err35);
                }
                errors++;
              }
            }
            if (data6.boundary_note !== undefined) {
              let data15 = data6.boundary_note;
              if (typeof data15 !== 'string') {
                const err36 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/boundary_note',
                  schemaPath: '#/properties/scenes/items/properties/boundary_note/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.boundary_note.type,
                  parentSchema: schema31.properties.scenes.items.properties.boundary_note,
                  data: data15,
                };
                if (vErrors === null) {
                  vErrors = [err36];
                } else {
                  vErrors.push(err36);
                }
                errors++;
              }
            }
            if (data6.boundary_confidence !== undefined) {
              let data16 = data6.boundary_confidence;
              if (typeof data16 !== 'string') {
                const err37 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/boundary_confidence',
                  schemaPath: '#/properties/scenes/items/properties/boundary_confidence/type',
                  keyword: 'type',
                  params: { type: 'string' },
                  message: 'must be string',
                  schema: schema31.properties.scenes.items.properties.boundary_confidence.type,
                  parentSchema: schema31.properties.scenes.items.properties.boundary_confidence,
                  data: data16,
                };
                if (vErrors === null) {
                  vErrors = [err37];
                } else {
                  vErrors.push(err37);
                }
                errors++;
              }
              if (!(data16 === 'High' || data16 === 'Medium' || data16 === 'Low')) {
                const err38 = {
                  instancePath: instancePath + '/scenes/' + i0 + '/boundary_confidence',
                  schemaPath: '#/properties/scenes/items/properties/boundary_confidence/enum',
                  keyword: 'enum',
                  params: {
                    allowedValues: schema31.properties.scenes.items.properties.boundary_confidence.enum,
                  },
                  message: 'must be equal to one of the allowed values',
                  schema: schema31.properties.scenes.items.properties.boundary_confidence.enum,
                  parentSchema: schema31.properties.scenes.items.properties.boundary_confidence,
                  data: data16,
                };
                if (vErrors === null) {
                  vErrors = [err38];
                } else {
                  vErrors.push(err38);
                }
                errors++;
              }
            }
          } else {
            const err39 = {
              instancePath: instancePath + '/scenes/' + i0,
              schemaPath: '#/properties/scenes/items/type',
              keyword: 'type',
              params: { type: 'object' },
              message: 'must be object',
              schema: schema31.properties.scenes.items.type,
              parentSchema: schema31.properties.scenes.items,
              data: data6,
            };
            if (vErrors === null) {
              vErrors = [err39];
            } else {
              vErrors.push(err39);
            }
            errors++;
          }
        }
      } else {
        const err40 = {
          instancePath: instancePath + '/scenes',
          schemaPath: '#/properties/scenes/type',
          keyword: 'type',
          params: { type: 'array' },
          message: 'must be array',
          schema: schema31.properties.scenes.type,
          parentSchema: schema31.properties.scenes,
          data: data5,
        };
        if (vErrors === null) {
          vErrors = [err40];
        } else {
          vErrors.push(err40);
        }
        errors++;
      }
    }
    if (data.boundary_caveats !== undefined) {
      let data17 = data.boundary_caveats;
      if (Array.isArray(data17)) {
        const len2 = data17.length;
        for (let i2 = 0; i2 < len2; i2++) {
          let data18 = data17[i2];
          if (typeof data18 !== 'string') {
            const err41 = {
              instancePath: instancePath + '/boundary_caveats/' + i2,
              schemaPath: '#/properties/boundary_caveats/items/type',
              keyword: 'type',
              params: { type: 'string' },
              message: 'must be string',
              schema: schema31.properties.boundary_caveats.items.type,
              parentSchema: schema31.properties.boundary_caveats.items,
              data: data18,
            };
            if (vErrors === null) {
              vErrors = [err41];
            } else {
              vErrors.push(err41);
            }
            errors++;
          }
        }
      } else {
        const err42 = {
          instancePath: instancePath + '/boundary_caveats',
          schemaPath: '#/properties/boundary_caveats/type',
          keyword: 'type',
          params: { type: 'array' },
          message: 'must be array',
          schema: schema31.properties.boundary_caveats.type,
          parentSchema: schema31.properties.boundary_caveats,
          data: data17,
        };
        if (vErrors === null) {
          vErrors = [err42];
        } else {
          vErrors.push(err42);
        }
        errors++;
      }
    }
  } else {
    const err43 = {
      instancePath,
      schemaPath: '#/type',
      keyword: 'type',
      params: { type: 'object' },
      message: 'must be object',
      schema: schema31.type,
      parentSchema: schema31,
      data,
    };
    if (vErrors === null) {
      vErrors = [err43];
    } else {
      vErrors.push(err43);
    }
    errors++;
  }
  validate20.errors = vErrors;
  return errors === 0;
}
validate20.evaluated = { props: true, dynamicProps: false, dynamicItems: false };
