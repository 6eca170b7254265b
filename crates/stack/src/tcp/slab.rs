//! Connections by number.

use super::connection::Connection;

/// Names a connection as long as it is here. One that was removed names none, also after its number was given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) version: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Slab {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Place {
    version: u32,
    connection: Option<Box<Connection>>,
}

impl Slab {
    /// The version of the connection that [`Self::insert`] will take.
    pub(crate) fn next_version(&self) -> u32 {
        self.free.last().and_then(|index| self.places.get(*index as usize)).map_or(0, |place| place.version)
    }

    pub(crate) fn insert(&mut self, connection: Box<Connection>) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        let version = place.version;
        place.connection = Some(connection);
        ConnectionId { index, version }
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let place = self.places.get_mut(id.index as usize).filter(|place| place.version == id.version)?;
        let connection = place.connection.take()?;
        place.version = place.version.wrapping_add(1);
        self.free.push(id.index);
        Some(connection)
    }

    #[inline]
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let place = self.places.get(id.index as usize).filter(|place| place.version == id.version)?;
        place.connection.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.at_mut(id.index).filter(|connection| connection.version == id.version)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.places.get_mut(index as usize)?.connection.as_deref_mut()
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&Connection> {
        self.places.get(index as usize)?.connection.as_deref()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::flow::Ready;

    #[test]
    fn idle_connection_takes_less_than_two_kibibytes() {
        let bytes = size_of::<Place>() + size_of::<Connection>() + size_of::<Ready>();
        assert!(bytes < 1800, "{bytes} bytes, before the node of the wheel and the entry of the four-tuple");
    }
}
