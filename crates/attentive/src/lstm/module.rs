//! [`SabLstm`] as a Burn module.

use super::SabLstm;
use crate::parameters::LayerParameter;
use burn::module::{
    Content, Devices, DisplaySettings, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;

/// In Burn's paths each parameter appears under its name, as if it were a field.
const CONTAINER: &str = "Struct:SabLstm";

impl Module for SabLstm {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.parameters.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self { parameters: self.parameters.fork(device), ..self }
    }

    fn to_device(self, device: &Device) -> Self {
        Self { parameters: self.parameters.to_device(device), ..self }
    }

    fn train(self) -> Self {
        Self { parameters: self.parameters.train(), ..self }
    }

    fn valid(&self) -> Self {
        Self { parameters: self.parameters.valid(), ..self.clone() }
    }

    fn materialize(self) -> Self {
        Self { parameters: self.parameters.materialize(), ..self }
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (declared, parameter) in self.declared.iter().zip(&self.parameters) {
            visitor.enter_module(declared.name, CONTAINER);
            parameter.visit(visitor);
            visitor.exit_module(declared.name, CONTAINER);
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let mapped = self.declared.iter().zip(self.parameters).map(|(declared, parameter)| {
            mapper.enter_module(declared.name, CONTAINER);
            let mapped = parameter.map(mapper);
            mapper.exit_module(declared.name, CONTAINER);
            mapped
        });
        Self { parameters: mapped.collect(), ..self }
    }
}

impl ModuleDisplayDefault for SabLstm {
    fn content(&self, content: Content) -> Option<Content> {
        let named = content.set_top_level_type("SabLstm");
        let all =
            self.declared.iter().zip(&self.parameters).fold(named, |content, (declared, parameter)| match parameter {
                LayerParameter::Matrix(param) => content.add(declared.name, param),
                LayerParameter::Vector(param) => content.add(declared.name, param),
            });
        all.optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl ModuleDisplay for SabLstm {}

impl std::fmt::Display for SabLstm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&ModuleDisplay::format(self, DisplaySettings::default()))
    }
}
